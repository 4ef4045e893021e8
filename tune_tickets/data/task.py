"""The rows of one task, split and ready: what stages, attacks and reports ask this folder for."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tune_tickets.config.task import Task
from tune_tickets.data.example import Example
from tune_tickets.data.labels import label_names
from tune_tickets.data.rows import examples
from tune_tickets.data.sources import read_held_out, read_source
from tune_tickets.data.splits import in_order, take, unique, without
from tune_tickets.data.table import Table
from tune_tickets.errors import DataError

__all__ = ["Dropped", "Example", "TaskData", "attack_sample", "load_task"]


@dataclass(frozen=True)
class Dropped:
    """How many rows were read and not used, by reason."""

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

    def __str__(self) -> str:
        return (
            f"{self.duplicates} duplicates, {self.conflicts} rows of texts with two labels, "
            f"{self.empty} without text or label, {self.held_out} also held out"
        )


@dataclass(frozen=True)
class TaskData:
    """Three disjoint splits. `train` trains, `select` steers the search, `report` is seen once, at the end."""

    train: tuple[Example, ...]
    select: tuple[Example, ...]
    report: tuple[Example, ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str
    """The text column that attacks may change."""
    dropped: Dropped

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything a search sees: label names, train and select rows."""
        return _fingerprint(self.labels, self.train, self.select)

    @cached_property
    def report_fingerprint(self) -> str:
        """sha256 of the label names and the report rows, which no search depends on."""
        return _fingerprint(self.labels, self.report)


def load_task(task: Task, seed: int) -> TaskData:
    """Read, check and split the rows of a task; the same task and seed give the same splits everywhere."""
    table, held_table = read_source(task), read_held_out(task)
    names = label_names(table, task)
    rows, dropped = _usable(table, task, names, seed)
    if held_table is None:
        _check_sizes(task, table, rows, ("report", "select", "train"))
        report, select, rest = take(rows, (task.rows.report, task.rows.select))
    else:
        held, held_dropped = _usable(held_table, task, names, seed)
        _check_sizes(task, held_table, held, ("report", "select"))
        report, select, _ = take(held, (task.rows.report, task.rows.select))
        rest = without(rows, held)
        _check_sizes(task, table, rest, ("train",))
        dropped = dropped + held_dropped + Dropped(held_out=len(rows) - len(rest))
    train = rest if task.rows.train is None else take(rest, (task.rows.train,))[0]
    _check_classes(train, names, table)
    attacked = task.attacked or task.columns[0]
    return TaskData(tuple(train), tuple(select), tuple(report), names, task.columns, attacked, dropped)


def attack_sample(select: Sequence[Example], n: int, seed: int) -> list[tuple[int, Example]]:
    """A seeded stratified sample of `n` select rows, no two of which are alike, with their positions, in order."""
    if n > len(select):
        raise DataError(
            f"evaluation.rows asks for {n} attacked rows, but there are {len(select)} select rows. "
            "Lower evaluation.rows or raise task.rows.select."
        )
    chosen = set(take(in_order(select, seed, "attack"), (n,))[0])
    return [(index, row) for index, row in enumerate(select) if row in chosen]


def _usable(table: Table, task: Task, names: Sequence[str], seed: int) -> tuple[list[Example], Dropped]:
    """The rows of a table without duplicates, in the seeded order."""
    rows, empty = examples(table, task, names)
    kept = unique(rows)
    return in_order(kept.rows, seed), Dropped(kept.duplicates, kept.conflicts, empty)


def _check_sizes(task: Task, table: Table, rows: Sequence[Example], splits: Sequence[str]) -> None:
    """Whether the rows suffice for the splits that are taken from them."""
    sizes = {"report": task.rows.report, "select": task.rows.select, "train": task.rows.train or 2}
    wanted = sum(sizes[split] for split in splits)
    if wanted > len(rows):
        asked = " + ".join(f"{sizes[split]} {split}" for split in splits)
        raise DataError(
            f"{table.name}: task.rows asks for {asked} = {wanted} rows, but of the {len(table)} rows read only "
            f"{len(rows)} can be used: duplicates, texts with two labels and texts that are also held out are left "
            "out. Lower task.rows or bring more rows."
        )


def _check_classes(train: Iterable[Example], names: Sequence[str], table: Table) -> None:
    present = {row.label for row in train}
    lacking = [name for index, name in enumerate(names) if index not in present]
    if lacking:
        raise DataError(
            f"{table.name}: no training row has the label {', '.join(map(repr, lacking))}. Add rows of that class, "
            "take it out of task.labels, or raise task.rows.train."
        )


def _fingerprint(labels: Sequence[str], *splits: Iterable[Example]) -> str:
    digest = hashlib.sha256(json.dumps(labels).encode())
    for rows in splits:
        digest.update(b"\n")
        for row in rows:
            digest.update(json.dumps([row.texts, row.label]).encode() + b"\n")
    return digest.hexdigest()
