"""Labels as they stand in a column - words, whole numbers, published class numbers - and their names in class order."""

import math
import re
from collections.abc import Iterable, Sequence

from tune_tickets.config.task import Task
from tune_tickets.data.files import Table
from tune_tickets.errors import DataError


def label_words(table: Table, column: str) -> list[str | None]:
    """The label of every row as a word; None where a row has none. Class numbers become their published names."""
    names = table.class_names.get(column)
    values = table.column(column)
    if names is None:
        return [_word(value, table, column, row) for row, value in enumerate(values)]
    # Hub data sets mark unlabelled rows with class -1.
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else None for value in values]


def label_names(table: Table, task: Task) -> tuple[str, ...]:
    """The label names in class order: those of the task, else the published order, else the names found, sorted."""
    if task.labels is not None:
        return task.labels
    found = {word for word in label_words(table, task.label) if word is not None}
    published = table.class_names.get(task.label)
    return tuple(name for name in published if name in found) if published else sort_names(found)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Label names in order; whole numbers by value, so that 10 comes after 2."""
    names = list(names)
    return tuple(sorted(names, key=int) if all(map(_is_whole, names)) else sorted(names))


def class_numbers(words: Sequence[str | None], names: Sequence[str], positions: bool) -> dict[str, int]:
    """Class number by label as written. With `positions`, where no name occurs, labels 0, 1, ... count as classes."""
    by_name = {name: index for index, name in enumerate(names)}
    if positions and not any(word in by_name for word in words):
        return {str(index): index for index in range(len(names))}
    return by_name


def _word(value: object, table: Table, column: str, row: int) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # whole numbers beside missing values are stored as floats
    if isinstance(value, str | int):
        return str(value).strip() or None
    raise DataError(
        f"{table.where(row)}, column {column!r}: {value!r:.80} is no label; labels are words or whole numbers. "
        "Check task.label, or mend the row."
    )


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit()


_NAMELESS = re.compile(r"LABEL_\d+")  # what transformers calls classes that nobody named


def match_labels(table: Table, task: Task, classes: Sequence[str], model: str) -> tuple[str, ...]:
    """The data's label names in the order of the model's classes; a class the data lack keeps the model's name.

    Names are compared without regard to case. Labels 0, 1, ... are class numbers, and where the classes of the model
    have no names, or `task.labels` states an order, labels are matched by their order.
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
        f"{table.name} has the labels {', '.join(map(repr, words))}, {model} the classes "
        f"{', '.join(map(repr, classes))}, and it cannot be told which is which. Name the labels of the data in the "
        f"order of the model's classes, for example task.labels=[{', '.join(words)}]"
    )
