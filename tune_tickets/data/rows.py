"""Turn a table into examples: find the columns, number the labels, check the texts."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tune_tickets.config.task import Task
from tune_tickets.data.files import Table
from tune_tickets.errors import DataError


def label_words(table: Table, column: str) -> list[str | None]:
    """Return the label of every row as a word, or None for a row without one.

    Class numbers become their published names.

    Raises:
        DataError: a label is neither a word nor a whole number.
    """
    names = table.class_names.get(column)
    values = table.column(column)
    if names is None:
        return [_word(value, table, column, row) for row, value in enumerate(values)]
    # Hub data sets mark unlabelled rows with class -1.
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else None for value in values]


def label_names(table: Table, task: Task) -> tuple[str, ...]:
    """Return the label names in class order: those of the task, else as published, else sorted."""
    if task.labels is not None:
        return task.labels
    found = {word for word in label_words(table, task.label) if word is not None}
    published = table.class_names.get(task.label)
    return tuple(name for name in published if name in found) if published else sort_names(found)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Sort label names; whole numbers by value, so that 10 comes after 2."""
    names = list(names)
    return tuple(sorted(names, key=int) if all(map(_is_whole, names)) else sorted(names))


def class_numbers(words: Sequence[str | None], names: Sequence[str], positions: bool) -> dict[str, int]:
    """Map each label as written to its class number.

    With `positions`, and if none of the names occurs, the labels 0, 1, ... are taken as class numbers.
    """
    by_name = {name: index for index, name in enumerate(names)}
    if positions and not any(word in by_name for word in words):
        return {str(index): index for index in range(len(names))}
    return by_name


def _word(value: object, table: Table, column: str, row: int) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # in a column with missing values, whole numbers are stored as floats
    if isinstance(value, str | int):
        return str(value).strip() or None
    raise DataError(
        f"{table.where(row)}, column {column!r}: {value!r:.80} is not a label; labels are words or whole numbers. "
        "Check task.label, or correct the row."
    )


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit()


_NAMELESS = re.compile(r"LABEL_\d+")  # the default class names of transformers


def match_labels(table: Table, task: Task, classes: Sequence[str], model: str) -> tuple[str, ...]:
    """Return the data's label names in the order of the model's classes.

    Names are compared without regard to case. Labels 0, 1, ... are class numbers. Labels are matched by their order if
    the model's classes have no names or `task.labels` gives an order. A class that the data lack keeps its name.

    Raises:
        DataError: the labels cannot be matched.
    """
    words = label_names(table, task)
    by_name = {name.casefold(): index for index, name in enumerate(classes)}
    if all(word.casefold() in by_name for word in words):
        placed = {by_name[word.casefold()]: word for word in words}
        return tuple(placed.get(index, name) for index, name in enumerate(classes))
    if set(words) <= {str(index) for index in range(len(classes))}:
        return tuple(str(index) for index in range(len(classes)))
    nameless = all(_NAMELESS.fullmatch(name) for name in classes)
    ordered = task.labels is not None or (nameless and task.label in table.class_names)
    if ordered and len(words) == len(classes) and not any(word.casefold() in by_name for word in words):
        return words
    raise DataError(
        f"{table.name} has the labels {', '.join(map(repr, words))}, but {model} has the classes "
        f"{', '.join(map(repr, classes))}, and they cannot be matched. Give the labels of the data in the order of the "
        f"model's classes, for example task.labels=[{', '.join(words)}]"
    )


@dataclass(frozen=True)
class Example:
    """One labelled text, or pair of texts; `label` is an index into the task's label names."""

    texts: tuple[str, ...]
    label: int


def rows_digest(rows: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """Return 16 hex digits that identify labelled texts and their order: paired tests need the same rows."""
    digest = hashlib.sha256()
    for texts, label in rows:
        digest.update(json.dumps([texts, label]).encode() + b"\n")
    return digest.hexdigest()[:16]


def examples(table: Table, task: Task, names: Sequence[str]) -> tuple[list[Example], int]:
    """Return all usable rows, and the number of rows that were skipped because they lack a text or a label.

    Raises:
        DataError: a text or label is missing (in a user's file), has the wrong type, or there is only one class.
    """
    texts = list(zip(*(table.column(column) for column in task.columns), strict=True))
    words = label_words(table, task.label)
    empty = [row for row, values in enumerate(texts) if any(map(is_empty, values))]
    unlabelled = [row for row, word in enumerate(words) if word is None]
    if not table.published:
        _refuse(table, empty, " or ".join(map(repr, task.columns)), "text")
        _refuse(table, unlabelled, repr(task.label), "label")
    numbers = class_numbers(words, names, positions=task.labels is not None)
    left_out = {*empty, *unlabelled}
    usable = [
        Example(
            tuple(_text(value, table, name, row) for value, name in zip(values, task.columns, strict=True)),
            _class(words[row], numbers, table, task, row),
        )
        for row, values in enumerate(texts)
        if row not in left_out
    ]
    _require_two_classes(usable, table, task, names)
    return usable, len(left_out)


def is_empty(value: object) -> bool:
    """Whether a cell is missing or holds only white space."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(value: object, table: Table, column: str, row: int) -> str:
    if not isinstance(value, str):
        raise DataError(
            f"{table.where(row)}, column {column!r}: {value!r:.80} has type {type(value).__name__}, not text. "
            "Check task.text, or write the value as a string."
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{table.where(row)}, column {column!r}: the text contains half a character (a lone surrogate), which no "
            "tokenizer can read. Remove it."
        ) from None
    return value


def _class(word: str | None, numbers: dict[str, int], table: Table, task: Task, row: int) -> int:
    if word is None or word not in numbers:
        known = ", ".join(map(repr, numbers))
        remedy = "Add it to task.labels" if task.labels is not None else "Name all labels in task.labels"
        raise DataError(
            f"{table.where(row)}, column {task.label!r}: the label {word!r} is not one of {known}. "
            f"{remedy}, or remove the row."
        )
    return numbers[word]


def _refuse(table: Table, rows: Sequence[int], column: str, what: str) -> None:
    if rows:
        more = f" ({len(rows)} such rows in total)" if len(rows) > 1 else ""
        raise DataError(
            f"{table.where(rows[0])}, column {column}: the {what} is empty{more}. Add the {what}, or remove such rows."
        )


def _require_two_classes(rows: Sequence[Example], table: Table, task: Task, names: Sequence[str]) -> None:
    present = [names[label] for label in sorted({row.label for row in rows})]
    if len(present) < 2:
        found = f"only the label {present[0]!r}" if present else "no label"
        raise DataError(
            f"{table.name}: column {task.label!r} holds {found}, but a classifier needs rows of two or more classes. "
            "Check task.label, or add rows of the other classes."
        )
