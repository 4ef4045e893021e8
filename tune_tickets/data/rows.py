"""From a table to examples: columns found, labels turned into class numbers, texts checked."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tune_tickets.config.task import Task
from tune_tickets.data.files import Table
from tune_tickets.data.labels import class_numbers, label_words
from tune_tickets.errors import DataError


@dataclass(frozen=True)
class Example:
    """One labelled text, or pair of texts; `label` is an index into the task's label names."""

    texts: tuple[str, ...]
    label: int


def rows_digest(rows: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """16 hex digits that identify labelled texts and their order: paired figures need the same rows."""
    digest = hashlib.sha256()
    for texts, label in rows:
        digest.update(json.dumps([texts, label]).encode() + b"\n")
    return digest.hexdigest()[:16]


def examples(table: Table, task: Task, names: Sequence[str]) -> tuple[list[Example], int]:
    """All usable rows, and how many rows of a published data set were left out for want of a text or a label."""
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
    """Whether a cell holds nothing that could be read: missing, or only white space."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(value: object, table: Table, column: str, row: int) -> str:
    if not isinstance(value, str):
        raise DataError(
            f"{table.where(row)}, column {column!r}: {value!r:.80} is of type {type(value).__name__}, not a text. "
            "Check task.text, or write the value as a string."
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{table.where(row)}, column {column!r}: the text holds half a character (a lone surrogate), which no "
            "tokenizer reads. Remove it."
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
        more = f" ({len(rows)} such rows in all)" if len(rows) > 1 else ""
        raise DataError(
            f"{table.where(rows[0])}, column {column}: the {what} is empty{more}. "
            f"Fill the {what} in, or remove such rows."
        )


def _require_two_classes(rows: Sequence[Example], table: Table, task: Task, names: Sequence[str]) -> None:
    present = [names[label] for label in sorted({row.label for row in rows})]
    if len(present) < 2:
        found = f"only the label {present[0]!r}" if present else "no label"
        raise DataError(
            f"{table.name}: column {task.label!r} holds {found}, a classifier needs rows of two or more classes. "
            "Check task.label, or add rows of the other classes."
        )
