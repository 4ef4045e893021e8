"""What a planned search is likely to spend, in the units of `search.budget`, from earlier stages on the store."""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.loading import fill
from tune_tickets.config.method import EarlyBird, Imp, ORTicket, RobustT
from tune_tickets.config.orticket import CORPUS
from tune_tickets.config.srnets import MOST_LOOKS, SRNets
from tune_tickets.config.training import Adversary
from tune_tickets.engine.inventory import Entry, inventory, readable
from tune_tickets.engine.runner import NotStored, OnRecord, StoreReader
from tune_tickets.engine.stage import VERSIONS, Stage, StageKey, StageResult
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError
from tune_tickets.search.space import reference, warm_starts
from tune_tickets.search.stage_counts import stages_asked, trial_options
from tune_tickets.trial.pipeline import Pipeline, World


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


@dataclass(frozen=True)
class PlannedStage:
    """One kind of stage over the whole search."""

    name: str
    asked: int
    cached: int | None
    """None if it cannot be told: results are found by what they depend on, and not all of that could be seen."""
    work: str
    seconds: float | None
    """Of one such stage, at the measured pace of earlier ones in the store; None if there were none."""

    @property
    def left(self) -> int:
        """How many are to be computed at most."""
        return self.asked - (self.cached or 0)

    @property
    def cost(self) -> float | None:
        """Computing seconds of what is left, if known."""
        return 0.0 if not self.left else None if self.seconds is None else self.left * self.seconds


_PACE = {"epochs": "retrain"}
"""Stages that do the work of another one, whose pace is better known."""


class _LookUp(StoreReader):
    """Counts what it finds."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.url)
        self.cached: Counter[str] = Counter()

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """The stored result; what follows an absent one cannot be known."""
        found = super().run(stage, on_record)
        self.cached[stage.name] += 1
        return found


def plan(experiment: Experiment, world: World | None, store: Store, train_rows: int | None) -> list[PlannedStage]:
    """The stages of a search, upper bounds: trials share what they can and ASHA ends some early.

    Without the world nothing can be found in the store; without the number of rows work is counted in epochs.
    """
    cached = None if world is None else _cached(experiment, world, store)
    options = trial_options(experiment)
    work = {name: each for option in options for name, each in _work(option, train_rows).items()}
    asked = stages_asked(experiment, options)
    entries, model = inventory(store), None if world is None else world.model_fingerprint
    return [
        PlannedStage(
            name,
            asked[name],
            None if cached is None else min(cached[name], asked[name]),
            work[name].text,
            expected_seconds(store, entries, _PACE.get(name, name), work[name], model),
        )
        for name in sorted(asked, key=list(VERSIONS).index)
    ]


def _cached(experiment: Experiment, world: World, store: Store) -> Counter[str]:
    """How many results the warm starts and the dense control would find, by stage."""
    settings = experiment.settings
    looked = _LookUp(store)
    points = warm_starts(experiment)[: settings.search.trials]
    if not experiment.domains:
        points = [{}] * settings.search.trials
    for point in points:
        trial = experiment.at(fill(experiment.document, experiment.domains, point))
        _walk(Pipeline(trial, world, looked), dense=False)
    if settings.controls.dense:
        _walk(Pipeline(reference(experiment), world, looked), dense=True)
    return looked.cached


def _walk(pipeline: Pipeline, dense: bool) -> None:
    try:
        if dense:
            pipeline.dense_control(lambda record: None)
        else:
            pipeline.find_ticket(lambda record: None)
    except NotStored:
        return


def _work(settings: Settings, train_rows: int | None) -> dict[str, Work]:
    retraining, select = settings.retraining, settings.task.rows.select
    attacked = min(settings.evaluation.rows, settings.evaluation.shard)
    training = _training(retraining.epochs, retraining.batch_size, retraining.adversary, train_rows)
    work = {
        "bias": Work("logistic regression"),
        "teacher": Work("predictions on the training rows"),
        "draw": Work("ranking"),
        "retrain": training,
        "epochs": training,
        "evaluate": Work(f"{select} rows", select),
        "ood": Work(_twins(settings)),
        "attack": Work(f"<= {attacked} rows attacked", attacked),
    }
    method = settings.method
    if isinstance(method, ORTicket) and method.search_on == CORPUS:
        passes = method.epochs * method.adversary.passes
        work["masked_lm"] = Work(
            f"{method.head.epochs:g} passes over all texts, if the checkpoint has no masked-LM head"
        )
        work["mlm_search"] = Work(f"<= {passes:g} passes over all blocks, for all tasks")
    elif isinstance(method, EarlyBird | RobustT | Imp):
        stage = {"robustt": "masks", "imp": "imp"}.get(method.kind, "search")
        most = _training(method.epochs, method.batch_size, method.adversary, train_rows)
        work[stage] = Work(f"<= {most.text}", most.steps)
    if isinstance(method, RobustT) and method.scores == "magnitude":
        work["masks"] = Work("magnitudes")
    if isinstance(method, SRNets):
        work["srnets_masks"] = _training(method.epochs, method.batch_size, Adversary(kind="none"), train_rows)
        interval = method.epochs * method.prune_interval
        work["srnets_imp"] = _training(interval, method.batch_size, Adversary(kind="none"), train_rows)
        work["ood_curve"] = _followed(method, settings, train_rows)
    return work


def _followed(method: SRNets, settings: Settings, train_rows: int | None) -> Work:
    """The masks of a mask training that are measured on a twin; steps are rows of the mean twin."""
    named, rows = _twins(settings), _twin_rows(settings)
    if train_rows is None:
        return Work(f"<= {MOST_LOOKS} masks, {named}")
    masks = len(method.kept_looks(_plan_steps(method.epochs, method.batch_size, train_rows)))
    return Work(f"{masks} masks, {named}", masks * sum(rows.values()) / max(1, len(rows)))


def _twins(settings: Settings) -> str:
    """The OOD twins with their rows."""
    return ", ".join(f"{name} {count} rows" for name, count in _twin_rows(settings).items())


def _twin_rows(settings: Settings) -> dict[str, int]:
    task = settings.task
    rows = [twin.rows.select for twin in task.ood] + ([task.planted.rows.select] if task.planted else [])
    return dict(zip(task.twins, rows, strict=True))


def _plan_steps(epochs: float, batch_size: int, train_rows: int) -> int:
    return math.ceil(epochs * math.ceil(train_rows / batch_size))


def _training(epochs: float, batch_size: int, adversary: Adversary, train_rows: int | None) -> Work:
    if train_rows is None:
        return Work(f"{epochs * adversary.passes:g} passes over all training rows")
    steps = _plan_steps(epochs, batch_size, train_rows)
    return Work(f"{steps * adversary.passes} passes of {batch_size} rows", epochs * adversary.passes * train_rows)


_HOUR = 3600.0


def estimate(stages: Sequence[PlannedStage], settings: Settings) -> dict[str, float] | None:
    """Hours and money of what is left at most; None if a kind of stage was never measured.

    Rough: the measured pace of earlier stages of a kind, for all that is planned of it. On a cluster every stage is
    taken to have a node of its own, which is the dearest way; here, no more run at once than this machine has CPUs for.
    """
    costs = [stage.cost for stage in stages]
    seconds = sum(cost for cost in costs if cost is not None)
    if None in costs:
        return None
    wall_clock = seconds / _at_once(settings) / _HOUR
    spent = {
        "cpu_hours": seconds * settings.resources.cpus / _HOUR,
        "gpu_hours": seconds * settings.resources.gpus / _HOUR,
        "wall_clock_hours": wall_clock,
    }
    price = settings.search.budget.price_per_node_hour
    node_hours = seconds / _HOUR if settings.resources.address else wall_clock
    return spent if price is None else {**spent, "money": node_hours * price}


def _at_once(settings: Settings) -> int:
    """How many stages run side by side at least, once there are enough of them."""
    concurrency = settings.search.concurrency
    if settings.resources.address:
        return concurrency
    return max(1, min(concurrency, int((os.cpu_count() or 1) / settings.resources.cpus)))


def estimate_lines(stages: Sequence[PlannedStage], settings: Settings) -> list[str]:
    """The same in words, and what the budget says to it."""
    limits = settings.search.budget.limits()
    found = estimate(stages, settings)
    if found is None:
        unknown = ", ".join(stage.name for stage in stages if stage.cost is None)
        stops = "; the search stops at its budget" if limits else ""
        return [f"Cost unknown: {unknown} never ran on this store. It is known after the first trial{stops}."]
    shown = ", ".join(f"{value:.3g} {name.replace('_', ' ')}" for name, value in found.items())
    where = "a node per stage" if settings.resources.address else "on this machine"
    lines = [f"Rough estimate from the measured steps of earlier stages: at most {shown} ({where})."]
    for name, limit in limits.items():
        if found[name] > limit:
            share = 100.0 * limit / found[name]
            lines.append(f"The budget of {limit:g} {name.replace('_', ' ')} may end it after {share:.0f}% of that.")
    return lines
