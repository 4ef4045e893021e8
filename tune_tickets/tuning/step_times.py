"""How long a planned stage will take, from the measured steps of earlier stages of its kind on the store."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean
from typing import Any

from tune_tickets.errors import StoreError
from tune_tickets.trial.inventory import Entry, readable
from tune_tickets.trial.stage import StageKey, StageResult
from tune_tickets.trial.store import Store


@dataclass(frozen=True)
class Work:
    """What one stage has to do: in words, and as a number of steps of its own kind where that can be counted.

    Steps are passes of one row (forward and backward in training), rows measured, or rows attacked.
    """

    text: str
    steps: float | None = None


@dataclass(frozen=True)
class _Measured:
    """An earlier stage: seconds in its steps, their number, and seconds beside them."""

    model: str | None
    steps: float | None
    stepping: float
    beside: float


def expected_seconds(store: Store, entries: list[Entry], name: str, work: Work, model: str | None) -> float | None:
    """Seconds of one stage: its steps at the measured pace; the mean of earlier stages where steps are not counted.

    The pace is that of the same model, if it ever ran here, else of all models. None if no such stage has run.
    """
    found = [measured for entry in entries if entry.name == name for measured in _measured(store, entry)]
    found = [measured for measured in found if measured.model == model] or found
    if not found:
        return None
    counted = [measured for measured in found if measured.steps]
    if work.steps is None or not counted:
        return mean(measured.stepping + measured.beside for measured in found)
    pace = sum(measured.stepping for measured in counted) / sum(measured.steps or 0.0 for measured in counted)
    return work.steps * pace + mean(measured.beside for measured in found)


def _measured(store: Store, entry: Entry) -> Iterator[_Measured]:
    for result in readable(store, entry):
        steps, stepping = _steps(store, result)
        model = _inputs(store, result.key).get("model_fingerprint")
        if model is None:
            model = _inputs(store, _upstream(store, result.key, "retrain")).get("model_fingerprint")
        yield _Measured(model, steps, stepping, max(0.0, result.seconds - stepping))


def _steps(store: Store, result: StageResult) -> tuple[float | None, float]:
    """How many steps a stage has gone through, and how long these took."""
    record = result.record
    if result.key.name == "attack":
        return float(len(record["rows"])), result.seconds
    if result.key.name == "evaluate":
        return float(record["clean"]["rows"]), result.seconds
    if result.key.name == "ood_curve":
        return float(record["looks"] * record["rows"]), result.seconds
    training, data = record.get("training"), _upstream(store, result.key, "data")
    rows = None if data is None else _rows(store, data)
    if training is None or rows is None:
        return None, result.seconds
    return training["passes"] * rows, training["seconds"]


def _rows(store: Store, data: StageKey) -> int | None:
    try:
        return int(store.require(data).record["train"])
    except (StoreError, KeyError):
        return None


def _inputs(store: Store, key: StageKey | None) -> dict[str, Any]:
    return {} if key is None else dict(_written(store, key).get("inputs", {}))


def _upstream(store: Store, key: StageKey, role: str) -> StageKey | None:
    above = _written(store, key).get("upstream", {}).get(role)
    return None if above is None else StageKey(above["stage"], above["digest"], above["digest"])


def _written(store: Store, key: StageKey) -> dict[str, Any]:
    """What was written of how a result is computed; what an older release has written will do as well."""
    try:
        return dict(store.read_json(store.path("stage", key.name, key.digest, key.goal_digest)) or {})
    except (StoreError, TypeError, ValueError):
        return {}
