"""The rows of a task in the store, so that every worker sees the same ones, wherever the source was.

Report rows are left out: no stage of a search can see them.
"""

import json
from dataclasses import dataclass

from tune_tickets.data.task import Example, TaskData
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.quarantine import whole
from tune_tickets.engine.stage import Stage, StageResult
from tune_tickets.engine.store import Store

_FILE = "rows.json"


@dataclass(frozen=True)
class TaskRows:
    """What a stage may know of a task."""

    train: tuple[Example, ...]
    select: tuple[Example, ...]
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    attacked: str


def rows_stage(data: TaskData) -> Stage:
    """The rows a search sees, as a stage: their fingerprint is their identity."""
    inputs = {"fingerprint": data.fingerprint, "columns": list(data.columns), "attacked": data.attacked}
    return Stage("data", inputs)


def keep_rows(store: Store, data: TaskData) -> None:
    """Put the rows of a search into the store, unless they are there."""
    stage = rows_stage(data)
    if whole(store, stage):
        return
    attempt = store.begin(stage)
    rows = {
        "train": [[list(row.texts), row.label] for row in data.train],
        "select": [[list(row.texts), row.label] for row in data.select],
        "labels": list(data.labels),
        "columns": list(data.columns),
        "attacked": data.attacked,
    }
    attempt.put(_FILE, json.dumps(rows).encode())
    attempt.finish({"train": len(data.train), "select": len(data.select)}, seconds=0.0)


def load_rows(context: StageContext) -> TaskRows:
    """The rows a stage works on."""
    return read_rows(context.store, context.upstream("data"))


def read_rows(store: Store, kept: StageResult) -> TaskRows:
    """The rows that `keep_rows` has put into the store."""
    rows = json.loads(store.read(kept, _FILE))
    return TaskRows(
        train=_examples(rows["train"]),
        select=_examples(rows["select"]),
        labels=tuple(rows["labels"]),
        columns=tuple(rows["columns"]),
        attacked=rows["attacked"],
    )


def _examples(rows: list[tuple[list[str], int]]) -> tuple[Example, ...]:
    return tuple(Example(tuple(texts), label) for texts, label in rows)
