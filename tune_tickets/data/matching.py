"""Which class of a trained model a label of the data stands for."""

import re
from collections.abc import Sequence

from tune_tickets.config.task import Task
from tune_tickets.data.labels import label_names
from tune_tickets.data.table import Table
from tune_tickets.errors import DataError

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
