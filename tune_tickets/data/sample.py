"""The rows that a saved model is attacked on: as a search would take them, and none that it trained on."""

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
    """Labelled rows with their numbers in the task; `labels` are the data's names in the model's class order."""

    rows: tuple[tuple[int, Example], ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str
    origin: str
    """Where the rows are from, in words."""
    digest: str
    """Identifies the rows, whatever order a model's classes have."""

    def relabelled(self, labels: tuple[str, ...]) -> "Sample":
        """The same rows for a model whose classes are in another order."""
        rows = tuple((index, Example(row.texts, labels.index(self.labels[row.label]))) for index, row in self.rows)
        return replace(self, rows=rows, labels=labels)


def searched_sample(task: Task, split_seed: int, size: int, seed: int) -> Sample:
    """Rows a search attacks: drawn from the select rows of its task, so that its figures can be repeated."""
    data = load_task(task, split_seed)
    _check_size(size, len(data.select), f"the select rows of {task.source}")
    rows = attack_sample(data.select, size, seed)
    return _sample(rows, data.labels, data.columns, data.attacked, f"select rows of {task.source}")


def fresh_sample(task: Task, labels: tuple[str, ...], size: int, seed: int) -> Sample:
    """Rows of any source, stratified: the first in the seeded order, which a search of that seed holds back."""
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
    """Texts that were handed over with their labels: all of them, or a seeded stratified sample of `size`."""
    columns = columns or (("text",) if len(texts[:1] and texts[0]) < 2 else ("first", "second"))
    attacked = attacked or (columns[0] if len(columns) == 1 else None)
    if attacked not in columns:
        raise DataError(f"column is {attacked!r}: of {' and '.join(columns)}, name the one that attacks may change")
    numbers = {name.casefold(): number for number, name in enumerate(classes)}
    rows = []
    for index, (row, label) in enumerate(zip(texts, labels, strict=True)):
        if len(row) != len(columns):
            raise DataError(f"text {index} has {len(row)} parts, wanted are {len(columns)}: {' and '.join(columns)}")
        if str(label).casefold() not in numbers:
            raise DataError(f"text {index} has the label {label!r}, which is none of the model's: {', '.join(classes)}")
        rows.append(Example(tuple(row), numbers[str(label).casefold()]))
    if size is None:
        return _sample(list(enumerate(rows)), classes, columns, attacked, "texts given")
    distinct = list(dict.fromkeys(rows))
    _check_size(size, len(distinct), "the texts given")
    chosen = [(rows.index(row), row) for _, row in attack_sample(distinct, size, seed)]
    return _sample(chosen, classes, columns, attacked, "texts given")


def labels_for(task: Task, classes: Sequence[str], model: str) -> tuple[str, ...]:
    """The data's label names in the order of a model's classes; `model` names it in errors."""
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
            f"{asked} rows are to be attacked, but {where} are only {present} without duplicates: ask for {present} or "
            "fewer, or name other data"
        )
