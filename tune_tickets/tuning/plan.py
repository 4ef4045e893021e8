"""What a search would do: stages x trials, what the store has already, and what the rest is likely to cost."""

import math
from collections import Counter
from dataclasses import dataclass

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.adversary import Adversary
from tune_tickets.config.method import EarlyBird, Imp, ORTicket, RobustT
from tune_tickets.config.orticket import CORPUS
from tune_tickets.config.searchable import fill
from tune_tickets.config.srnets import MOST_LOOKS, SRNets
from tune_tickets.space import reference, warm_starts
from tune_tickets.trial.inventory import inventory
from tune_tickets.trial.pipeline import Pipeline, World
from tune_tickets.trial.runner import NotStored, OnRecord, StoreReader
from tune_tickets.trial.stage import VERSIONS, Stage, StageResult
from tune_tickets.trial.store import Store
from tune_tickets.tuning.stage_counts import stages_asked, trial_options
from tune_tickets.tuning.step_times import Work, expected_seconds


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
    masks = len(method.kept_looks(_steps(method.epochs, method.batch_size, train_rows)))
    return Work(f"{masks} masks, {named}", masks * sum(rows.values()) / max(1, len(rows)))


def _twins(settings: Settings) -> str:
    """The OOD twins with their rows."""
    return ", ".join(f"{name} {count} rows" for name, count in _twin_rows(settings).items())


def _twin_rows(settings: Settings) -> dict[str, int]:
    task = settings.task
    rows = [twin.rows.select for twin in task.ood] + ([task.planted.rows.select] if task.planted else [])
    return dict(zip(task.twins, rows, strict=True))


def _steps(epochs: float, batch_size: int, train_rows: int) -> int:
    return math.ceil(epochs * math.ceil(train_rows / batch_size))


def _training(epochs: float, batch_size: int, adversary: Adversary, train_rows: int | None) -> Work:
    if train_rows is None:
        return Work(f"{epochs * adversary.passes:g} passes over all training rows")
    steps = _steps(epochs, batch_size, train_rows)
    return Work(f"{steps * adversary.passes} passes of {batch_size} rows", epochs * adversary.passes * train_rows)
