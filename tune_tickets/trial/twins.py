"""The rows of OOD twins in the store: select rows as a stage per twin, training rows as one for the upper bound.

Report rows are left out: no stage of a search can see them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tune_tickets.data.ood import TwinData, TwinExample
from tune_tickets.data.task import Example, TaskData
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.quarantine import whole
from tune_tickets.engine.stage import Stage, digest_of
from tune_tickets.engine.store import Store

_FILE = "rows.json"


@dataclass(frozen=True)
class TwinRows:
    """What a stage may know of a twin; the fields are those of `TwinData`."""

    name: str
    rows: tuple[TwinExample, ...]
    labels: tuple[str, ...]
    answers: tuple[int | None, ...]
    metric: Literal["accuracy", "weighted_f1"]
    restrict: bool


def twin_stage(twin: TwinData) -> Stage:
    """The select rows of a twin as a stage, with the rules by which models answer on it."""
    rules = {"answers": list(twin.answers), "metric": twin.metric, "restrict": twin.restrict}
    return Stage("twin", {"name": twin.name, "fingerprint": twin.fingerprint, **rules})


def ood_train_stage(rows: Sequence[Example]) -> Stage:
    """The rows of twins to train on as a stage: what they hold is their identity."""
    return Stage("ood_train", {"fingerprint": digest_of([[list(row.texts), row.label] for row in rows])})


def keep_twins(store: Store, data: TaskData) -> None:
    """Put the rows of all twins into the store, unless they are there."""
    for twin in data.ood:
        stage = twin_stage(twin)
        rows = [[list(row.texts), row.label, row.group] for row in twin.select]
        _keep(store, stage, {**stage.inputs, "labels": list(twin.labels), "rows": rows})
    if data.ood_train:
        trained = [[list(row.texts), row.label] for row in data.ood_train]
        _keep(store, ood_train_stage(data.ood_train), {"rows": trained})


def load_twin_rows(context: StageContext) -> TwinRows:
    """The twin a stage measures on."""
    kept = json.loads(context.store.read(context.upstream("twin"), _FILE))
    return TwinRows(
        name=kept["name"],
        rows=tuple(TwinExample(tuple(texts), label, group) for texts, label, group in kept["rows"]),
        labels=tuple(kept["labels"]),
        answers=tuple(kept["answers"]),
        metric=kept["metric"],
        restrict=kept["restrict"],
    )


def load_ood_train(context: StageContext) -> tuple[Example, ...]:
    """The rows of twins a stage trains on, under the task's labels."""
    kept = json.loads(context.store.read(context.upstream("ood_train"), _FILE))
    return tuple(Example(tuple(texts), label) for texts, label in kept["rows"])


def _keep(store: Store, stage: Stage, content: dict[str, Any]) -> None:
    if not whole(store, stage):
        attempt = store.begin(stage)
        attempt.put(_FILE, json.dumps(content).encode())
        attempt.finish({"rows": len(content["rows"])}, seconds=0.0)
