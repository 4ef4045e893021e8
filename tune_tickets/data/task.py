"""Load a task: its rows, split into train, select and report, its twins and its planted bias."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tune_tickets.config.task import Planted, Task
from tune_tickets.data.files import Table, read_held_out, read_source
from tune_tickets.data.ood import TwinData, check_markers, load_train_rows, load_twin, plant, reversed_twin
from tune_tickets.data.rows import Example, examples, label_names
from tune_tickets.data.splits import in_order, take, unique, without
from tune_tickets.errors import DataError

__all__ = ["Dropped", "Example", "TaskData", "attack_sample", "load_task"]


@dataclass(frozen=True)
class Dropped:
    """How many rows were read but not used, by reason."""

    duplicates: int = 0
    conflicts: int = 0
    empty: int = 0
    held_out: int = 0

    def __add__(self, other: "Dropped") -> "Dropped":
        return Dropped(
            self.duplicates + other.duplicates,
            self.conflicts + other.conflicts,
            self.empty + other.empty,
            self.held_out + other.held_out,
        )


@dataclass(frozen=True)
class TaskData:
    """Three disjoint splits: `train` for training, `select` for the search, `report` only for `confirm`."""

    train: tuple[Example, ...]
    select: tuple[Example, ...]
    report: tuple[Example, ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str
    """The text column that attacks may change."""
    dropped: Dropped
    ood: tuple[TwinData, ...] = ()
    """The out-of-distribution twins; their rows are in no split of the task."""
    ood_train: tuple[Example, ...] = ()
    """Training rows of the twins under the task's labels; only methods that ask for OOD rows see them."""

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything a search sees: label names, train and select rows."""
        return _fingerprint(self.labels, self.train, self.select)

    @cached_property
    def report_fingerprint(self) -> str:
        """sha256 of the label names and the report rows. No search depends on it."""
        return _fingerprint(self.labels, self.report)


def load_task(task: Task, seed: int) -> TaskData:
    """Read, check and split the rows of a task. The same task and seed give the same splits on every machine.

    Raises:
        DataError: rows cannot be read or used, or are too few for the splits.
        ResourceError: a data set is missing; `Unreachable` if the network is the reason.
    """
    table, held_table = read_source(task), read_held_out(task)
    names = label_names(table, task)
    rows, dropped = _usable(table, task, names, seed)
    sizes = (task.rows.report, task.rows.select, _planted_rows(task))
    if held_table is None:
        _check_sizes(task, table, rows, ("report", "select", "reversed", "train"))
        report, select, turned, rest = take(rows, sizes)
    else:
        held, held_dropped = _usable(held_table, task, names, seed)
        _check_sizes(task, held_table, held, ("report", "select", "reversed"))
        report, select, turned, _ = take(held, sizes)
        rest = without(rows, held)
        _check_sizes(task, table, rest, ("train",))
        dropped = dropped + held_dropped + Dropped(held_out=len(rows) - len(rest))
    twins = tuple(load_twin(twin, task, names, seed) for twin in task.ood)
    apart = without(rest, (row for twin in twins for row in (*twin.select, *twin.report)))
    dropped = dropped + Dropped(held_out=len(rest) - len(apart))
    _check_sizes(task, table, apart, ("train",))
    train = apart if task.rows.train is None else take(apart, (task.rows.train,))[0]
    _check_classes(train, names, table)
    attacked = task.attacked or task.columns[0]
    data = TaskData(tuple(train), tuple(select), tuple(report), names, task.columns, attacked, dropped, twins)
    data = replace(data, ood_train=_ood_train(task, data, seed))
    return data if task.planted is None else _with_markers(data, task.planted, turned, seed)


def _planted_rows(task: Task) -> int:
    planted = task.planted
    return 0 if planted is None else planted.rows.report + planted.rows.select + planted.train_rows


def _ood_train(task: Task, data: TaskData, seed: int) -> tuple[Example, ...]:
    """Return the training rows of all twins, without texts of select and report rows of the task or a twin."""
    measured = (row for twin in data.ood for row in (*twin.select, *twin.report))
    held = [*data.select, *data.report, *measured]
    return tuple(
        row
        for twin in task.ood
        if twin.train is not None
        for row in load_train_rows(twin, twin.train, task, data.labels, held, seed)
    )


def _with_markers(data: TaskData, planted: Planted, turned: Sequence[Example], seed: int) -> TaskData:
    """Plant the markers in all splits, and add the twin in which the markers mislead."""
    check_markers(planted, data.labels)
    twin, trained = reversed_twin(turned, planted, data.labels, seed)
    return replace(
        data,
        train=plant(data.train, planted.markers, planted.strength, seed),
        select=plant(data.select, planted.markers, planted.strength, seed),
        report=plant(data.report, planted.markers, planted.strength, seed),
        ood=(*data.ood, twin),
        ood_train=(*data.ood_train, *trained),
    )


def attack_sample(select: Sequence[Example], n: int, seed: int) -> list[tuple[int, Example]]:
    """Return a seeded stratified sample of `n` select rows with their positions, in the order of the rows.

    Raises:
        DataError: there are fewer than `n` rows.
    """
    if n > len(select):
        raise DataError(
            f"evaluation.rows asks for {n} attacked rows, but there are {len(select)} select rows. "
            "Lower evaluation.rows or raise task.rows.select."
        )
    chosen = set(take(in_order(select, seed, "attack"), (n,))[0])
    return [(index, row) for index, row in enumerate(select) if row in chosen]


def _usable(table: Table, task: Task, names: Sequence[str], seed: int) -> tuple[list[Example], Dropped]:
    """Return the rows of a table without duplicates in the seeded order, and how many were dropped."""
    rows, empty = examples(table, task, names)
    kept = unique(rows)
    return in_order(kept.rows, seed), Dropped(kept.duplicates, kept.conflicts, empty)


def _check_sizes(task: Task, table: Table, rows: Sequence[Example], splits: Sequence[str]) -> None:
    """Raise if there are too few rows for the splits that are taken from them."""
    sizes = {"report": task.rows.report, "select": task.rows.select, "train": task.rows.train or 2}
    sizes["reversed"] = _planted_rows(task)
    splits = [split for split in splits if sizes[split]]
    wanted = sum(sizes[split] for split in splits)
    if wanted > len(rows):
        asked = " + ".join(f"{sizes[split]} {split}" for split in splits)
        raise DataError(
            f"{table.name}: task.rows asks for {asked} = {wanted} rows, but of the {len(table)} rows read only "
            f"{len(rows)} can be used: duplicates, texts with two labels and texts that are also held out are "
            "dropped. Lower task.rows or add rows."
        )


def _check_classes(train: Iterable[Example], names: Sequence[str], table: Table) -> None:
    present = {row.label for row in train}
    lacking = [name for index, name in enumerate(names) if index not in present]
    if lacking:
        raise DataError(
            f"{table.name}: no training row has the label {', '.join(map(repr, lacking))}. Add rows of that class, "
            "remove it from task.labels, or raise task.rows.train."
        )


def _fingerprint(labels: Sequence[str], *splits: Iterable[Example]) -> str:
    digest = hashlib.sha256(json.dumps(labels).encode())
    for rows in splits:
        digest.update(b"\n")
        for row in rows:
            digest.update(json.dumps([row.texts, row.label]).encode() + b"\n")
    return digest.hexdigest()
