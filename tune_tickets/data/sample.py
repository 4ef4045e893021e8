"""Choose the rows on which a saved model is attacked: as a search chooses them, and no training rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tune_tickets.config.task import Task
from tune_tickets.data.files import Table, read_held_out, read_source
from tune_tickets.data.rows import Example, examples, match_labels, rows_digest
from tune_tickets.data.splits import in_order, take, unique
from tune_tickets.data.task import attack_sample, load_task
from tune_tickets.errors import DataError


@dataclass(frozen=True)
class Sample:
    """Labelled rows with their numbers. `labels` are the data's names in the order of the model's classes."""

    rows: tuple[tuple[int, Example], ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str
    origin: str
    """Where the rows come from, for messages."""
    digest: str
    """Identifies the rows. It does not depend on the order of a model's classes."""

    def relabelled(self, labels: tuple[str, ...]) -> "Sample":
        """Return the same rows for a model whose classes have another order."""
        rows = tuple((index, Example(row.texts, labels.index(self.labels[row.label]))) for index, row in self.rows)
        return replace(self, rows=rows, labels=labels)


def searched_sample(task: Task, split_seed: int, size: int, seed: int) -> Sample:
    """Return the rows that a search attacks, from the select rows of its task, so that its metrics can be repeated.

    Raises:
        DataError: there are fewer than `size` select rows.
    """
    data = load_task(task, split_seed)
    _check_size(size, len(data.select), f"the select rows of {task.source}")
    rows = attack_sample(data.select, size, seed)
    return _sample(rows, data.labels, data.columns, data.attacked, f"select rows of {task.source}")


def fresh_sample(task: Task, labels: tuple[str, ...], size: int, seed: int) -> Sample:
    """Return a stratified sample of any source: the first rows in the seeded order.

    A search with the same source and seed does not train on them.

    Raises:
        DataError: there are fewer than `size` rows without duplicates.
    """
    table = _table(task)
    found, _ = examples(table, task.model_copy(update={"labels": labels}), labels)
    rows = in_order(unique(found).rows, seed)
    _check_size(size, len(rows), f"the rows of {table.name}")
    chosen = set(take(rows, (size,))[0])
    numbered = [(index, row) for index, row in enumerate(rows) if row in chosen]
    return _sample(numbered, labels, task.columns, task.attacked or task.columns[0], f"rows of {table.name}")


def given_sample(
    texts: Sequence[tuple[str, ...]],
    labels: Sequence[str],
    classes: tuple[str, ...],
    columns: tuple[str, ...] | None,
    attacked: str | None,
    size: int | None,
    seed: int,
) -> Sample:
    """Return given texts with their labels: all of them, or a seeded stratified sample of `size`.

    Raises:
        DataError: a text has the wrong number of parts or an unknown label, or there are too few texts.
    """
    columns = columns or (("text",) if len(texts[:1] and texts[0]) < 2 else ("first", "second"))
    attacked = attacked or (columns[0] if len(columns) == 1 else None)
    if attacked not in columns:
        raise DataError(f"column is {attacked!r}: choose {' or '.join(columns)}, the text that attacks may change")
    numbers = {name.casefold(): number for number, name in enumerate(classes)}
    rows = []
    for index, (row, label) in enumerate(zip(texts, labels, strict=True)):
        if len(row) != len(columns):
            raise DataError(f"text {index} has {len(row)} parts, expected {len(columns)}: {' and '.join(columns)}")
        if str(label).casefold() not in numbers:
            raise DataError(f"text {index} has the label {label!r}, but the model's labels are {', '.join(classes)}")
        rows.append(Example(tuple(row), numbers[str(label).casefold()]))
    if size is None:
        return _sample(list(enumerate(rows)), classes, columns, attacked, "texts given")
    distinct = list(dict.fromkeys(rows))
    _check_size(size, len(distinct), "the texts given")
    chosen = [(rows.index(row), row) for _, row in attack_sample(distinct, size, seed)]
    return _sample(chosen, classes, columns, attacked, "texts given")


def labels_for(task: Task, classes: Sequence[str], model: str) -> tuple[str, ...]:
    """Return the data's label names in the order of a model's classes. Errors call the model `model`.

    Raises:
        DataError: the labels cannot be matched with the classes.
    """
    return match_labels(_table(task), task, classes, model)


def _sample(
    rows: Sequence[tuple[int, Example]], labels: tuple[str, ...], columns: tuple[str, ...], attacked: str, origin: str
) -> Sample:
    digest = rows_digest((row.texts, row.label) for _, row in rows)
    return Sample(tuple(rows), labels, columns, attacked, origin, digest)


def _table(task: Task) -> Table:
    return read_held_out(task) or read_source(task)


def _check_size(asked: int, present: int, where: str) -> None:
    if asked > present:
        raise DataError(
            f"{asked} rows are to be attacked, but {where} are only {present} without duplicates: ask for at most "
            f"{present}, or name other data"
        )
