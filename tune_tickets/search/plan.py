"""Estimates what a search will cost, in the units of `search.budget`, from earlier stages in the store."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from tune_tickets.attacks.threat import threats_of
from tune_tickets.config import Experiment, Settings
from tune_tickets.config.domain import Scalar
from tune_tickets.engine.inventory import Entry, inventory, readable
from tune_tickets.engine.runner import DryRunner, unheard
from tune_tickets.engine.stage import Stage, StageKey, StageResult, Work, kind_of_stage
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError
from tune_tickets.methods.base import Flow, World
from tune_tickets.methods.stages import Retrain, Sizes
from tune_tickets.search.space import reference, trial_options, trials_wanted, warm_starts


@dataclass(frozen=True)
class _Measured:
    """An earlier stage: the number of its steps, the seconds in them, and the other seconds."""

    model: str | None
    steps: float | None
    stepping: float
    other: float


def expected_seconds(store: Store, entries: list[Entry], name: str, work: Work, model: str | None) -> float | None:
    """Return the expected seconds of one stage; None if no stage of this kind has run.

    Steps are multiplied with the measured seconds per step, of the same model if possible. For stages without steps,
    it is the mean of earlier ones.
    """
    found = [measured for entry in entries if entry.name == name for measured in _measured(store, entry)]
    found = [measured for measured in found if measured.model == model] or found
    if not found:
        return None
    counted = [measured for measured in found if measured.steps]
    if work.steps is None or not counted:
        return mean(measured.stepping + measured.other for measured in found)
    pace = sum(measured.stepping for measured in counted) / sum(measured.steps or 0.0 for measured in counted)
    return work.steps * pace + mean(measured.other for measured in found)


def _measured(store: Store, entry: Entry) -> Iterator[_Measured]:
    for result in readable(store, entry):
        steps, stepping = _steps(store, result)
        model = _inputs(store, result.key).get("model_fingerprint")
        if model is None:
            model = _inputs(store, _upstream(store, result.key, "retrain")).get("model_fingerprint")
        yield _Measured(model, steps, stepping, max(0.0, result.seconds - stepping))


def _steps(store: Store, result: StageResult) -> tuple[float | None, float]:
    """Return how many steps a stage has computed, and how long they took."""
    kind, data = kind_of_stage(result.key.name), _upstream(store, result.key, "data")
    if kind is None:
        return None, result.seconds
    return kind.steps_done(result, None if data is None else _rows(store, data))


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
    """Return the recipe stored with a result; {} if there is none. Recipes of older releases are read too."""
    try:
        return dict(store.read_json(store.path("stage", key.name, key.digest, key.goal_digest)) or {})
    except (StoreError, TypeError, ValueError):
        return {}


@dataclass(frozen=True)
class PlannedStage:
    """All stages of one kind in a search."""

    name: str
    asked: int
    cached: int | None
    """None if unknown, because data or model could not be read."""
    work: str
    seconds: float | None
    """Expected seconds of one stage; None if none was measured yet."""

    @property
    def left(self) -> int:
        """The largest number that must be computed."""
        return self.asked - (self.cached or 0)

    @property
    def cost(self) -> float | None:
        """The seconds to compute what is left, if known."""
        return 0.0 if not self.left else None if self.seconds is None else self.left * self.seconds


def plan(experiment: Experiment, world: World | None, store: Store, train_rows: int | None) -> list[PlannedStage]:
    """Walk through the flow of all trials and controls without computing anything.

    The numbers are upper bounds: trials share stages, and ASHA stops some trials early.

    Args:
        experiment: The experiment.
        world: The identities of data and model; None if not all of them could be read.
        store: The store with results of earlier searches.
        train_rows: The number of training rows; if None, work is counted in epochs.

    Returns:
        One entry per kind of stage, in the order of the flow.
    """
    walk = _Walk(experiment, world, store, train_rows)
    walk.trials()
    walk.controls()
    entries, model = inventory(store), None if world is None else world.model_fingerprint
    return [
        PlannedStage(
            name,
            asked,
            None if world is None else min(walk.cached[name], asked),
            walk.work[name].text,
            expected_seconds(store, entries, walk.kinds[name].pace or name, walk.work[name], model),
        )
        for name, asked in walk.asked.items()
    ]


class _Walk:
    """Counts the stages that the trials and controls of a search need."""

    def __init__(self, experiment: Experiment, world: World | None, store: Store, train_rows: int | None) -> None:
        self._experiment = experiment
        self._world = world or _imagined(experiment.settings)
        self._store = None if world is None else store
        self._sizes = Sizes(train_rows, experiment.settings.task.rows.select, _twin_rows(experiment.settings))
        self.asked: Counter[str] = Counter()
        self.cached: Counter[str] = Counter()
        self.work: dict[str, Work] = {}
        self.kinds: dict[str, type[Stage]] = {}

    def trials(self) -> None:
        """Add the warm starts, and for every other trial the largest number of stages that one can need."""
        wanted = trials_wanted(self._experiment)
        points = warm_starts(self._experiment)[:wanted]
        if not self._experiment.domains:
            points = [{}] * wanted
        for point in points:
            self._most(trial_options(self._experiment, point), 1)
        self._most(trial_options(self._experiment), wanted - len(points), cached=False)

    def controls(self) -> None:
        """Add the dense control, random tickets, and the attacks after every epoch."""
        controls, dense = self._experiment.settings.controls, reference(self._experiment)
        if controls.dense:
            self._add(self._walked(dense, lambda flow: flow.dense_control(unheard)))
        tickets = 1 if controls.random_of == "winner" else trials_wanted(self._experiment)
        if controls.random:
            self._most_of(_random, controls.random_seeds * tickets)
        if controls.epochs:
            self._most_of(_epochs, 1)
            if controls.dense:
                self._add(self._walked(dense, _epochs))

    def _most(self, points: Sequence[Mapping[str, Scalar]], times: int, cached: bool = True) -> None:
        """Add a trial with these options: of each kind of stage, the largest number that an option needs."""
        walked = [
            self._walked(self._experiment.at(dict(point)), lambda flow: flow.find_ticket(unheard)) for point in points
        ]
        if times > 0:
            self._add_most(walked, times, cached)

    def _most_of(self, ask: Callable[[Flow], object], times: int) -> None:
        options = [self._experiment.at(dict(point)) for point in trial_options(self._experiment)]
        self._add_most([self._walked(settings, ask) for settings in options], times, cached=False)

    def _add_most(self, walked: Sequence[DryRunner], times: int, cached: bool) -> None:
        most: Counter[str] = Counter()
        for runner in walked:
            counted = Counter(stage.name for stage in runner.asked)
            most |= Counter({name: counted[name] for name in counted})
            self._note(runner)
        for name, number in most.items():
            self.asked[name] += times * number
        if cached and walked:
            fewest = min(walked, key=lambda runner: len(runner.cached))
            self.cached += Counter(stage.name for stage in fewest.cached)

    def _add(self, runner: DryRunner) -> None:
        self._add_most([runner], 1, cached=True)

    def _walked(self, settings: Settings, ask: Callable[[Flow], object]) -> DryRunner:
        runner = DryRunner(self._store)
        ask(Flow(settings, self._world, runner))
        return runner

    def _note(self, runner: DryRunner) -> None:
        """Keep the most expensive work of each kind of stage."""
        for stage in runner.asked:
            self.kinds[stage.name] = type(stage)
            work, known = stage.work(self._sizes), self.work.get(stage.name)
            if known is None or (work.steps or 0.0) > (known.steps or 0.0):
                self.work[stage.name] = work


def _random(flow: Flow) -> None:
    like = StageKey("draw", "", "")
    flow.random_control(like, 0, unheard, dict.fromkeys(flow.settings.transfer, like))


def _epochs(flow: Flow) -> None:
    """Walk through the epochs of the winner or the dense control, except the last, which is measured already."""
    before = DryRunner(None)
    final = Flow(flow.settings, flow.world, before).dense_control(unheard)
    [trained, *_] = [stage for stage in before.asked if isinstance(stage, Retrain)]
    if trained.retraining is not None:
        flow.after_every_epoch(trained, final)


def _imagined(settings: Settings) -> World:
    """Return a world to plan with if data or model cannot be read. It matches nothing in a store."""
    key = StageKey("", "", "")
    return World(
        data=key,
        model_fingerprint="",
        anatomy={},
        threats=tuple(threats_of(settings.evaluation)),
        tickets=defaultdict(lambda: key),
        corpus=key if any(threat.fits_masked_lm for threat in threats_of(settings.evaluation)) else None,
        vectors=defaultdict(lambda: key),
        twins=dict.fromkeys(settings.task.twins, key),
        ood_train=key,
        transfers=dict.fromkeys(settings.transfer, key),
        search_texts=defaultdict(lambda: key),
        sources=defaultdict(dict),
    )


def _twin_rows(settings: Settings) -> dict[str, int]:
    task = settings.task
    rows = [twin.rows.select for twin in task.ood] + ([task.planted.rows.select] if task.planted else [])
    return dict(zip(task.twins, rows, strict=True))


_HOUR = 3600.0


def estimate(stages: Sequence[PlannedStage], settings: Settings) -> dict[str, float] | None:
    """Return the hours and the money of what is left, at most; None if a kind of stage was never measured.

    On a cluster, one node per stage is assumed, which is the most expensive case. Locally, as many stages run at the
    same time as this machine has CPUs.
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
    """Return how many stages run at the same time, at least."""
    concurrency = settings.search.concurrency
    if settings.resources.address:
        return concurrency
    return max(1, min(concurrency, int((os.cpu_count() or 1) / settings.resources.cpus)))


def estimate_lines(stages: Sequence[PlannedStage], settings: Settings) -> list[str]:
    """Return the estimate as text, and whether the budget is enough."""
    limits = settings.search.budget.limits()
    found = estimate(stages, settings)
    if found is None:
        unknown = ", ".join(stage.name for stage in stages if stage.cost is None)
        stops = "; the search stops at its budget" if limits else ""
        return [f"Cost unknown: {unknown} never ran on this store. The first trial gives an estimate{stops}."]
    shown = ", ".join(f"{value:.3g} {name.replace('_', ' ')}" for name, value in found.items())
    where = "a node per stage" if settings.resources.address else "on this machine"
    lines = [f"Rough estimate from the measured steps of earlier stages: at most {shown} ({where})."]
    for name, limit in limits.items():
        if found[name] > limit:
            share = 100.0 * limit / found[name]
            lines.append(f"The budget of {limit:g} {name.replace('_', ' ')} may stop it after {share:.0f}% of that.")
    return lines
