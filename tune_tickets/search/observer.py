"""Watches Ray Tune: turns its callbacks into trial records, MLflow runs and events, and stops it at its budget."""

import json
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.experiment import uses_ood_information
from tune_tickets.config.title import title
from tune_tickets.engine.store import Store
from tune_tickets.errors import TicketsError
from tune_tickets.files import write_atomic
from tune_tickets.reports.artifacts import transfer_artifacts, trial_artifacts
from tune_tickets.results.folder import Results
from tune_tickets.results.metrics import headline
from tune_tickets.results.objective import names
from tune_tickets.results.records import Outcome, StageRecord, TrialRecord, TrialStatus, cost_of
from tune_tickets.search.progress import EpochReport, Event, Note, Progress, StageChanged, TrialFinished, TrialStarted
from tune_tickets.search.searcher import TicketSearch, Unpickled
from tune_tickets.search.trainable import BOUND, EPOCH, FAILED, PROBE
from tune_tickets.tracking.protocol import AnyTracker

_HOUR = 3600.0
_LEAST_SECONDS = 1.0
"""Shortest time between two updates: Tune asks many times per second."""
KINDS = ("gpu_hours", "cpu_hours", "wall_clock_hours", "money")


class Ledger:
    """Adds up what the search has spent, over all sessions. Every update is written to disk."""

    def __init__(
        self,
        settings: Settings,
        path: Path,
        nodes: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = settings.search.budget.limits()
        self._price = settings.search.budget.price_per_node_hour
        self._resources = settings.resources
        self._path, self._nodes, self._clock = path, nodes, clock
        self._looked = clock()
        self._looking = threading.Lock()  # controls call this from their own threads
        self.spent = dict.fromkeys(KINDS, 0.0) | _read(path)

    def charge(self, seconds: float) -> None:
        """Add the resources of stages for this time, finished or not."""
        self.spent["gpu_hours"] += seconds * self._resources.gpus / _HOUR
        self.spent["cpu_hours"] += seconds * self._resources.cpus / _HOUR

    def exhausted(self) -> str | None:
        """Return which limit is reached, as text; None if none is."""
        self._look()
        for name, limit in self._limits.items():
            if self.spent[name] >= limit:
                return f"the budget of {limit:g} {name.replace('_', ' ')} is spent ({self.spent[name]:.4g})"
        return None

    def close(self) -> None:
        """Add the time since the last update."""
        self._look(least=0.0)

    def _look(self, least: float = _LEAST_SECONDS) -> None:
        with self._looking:
            now = self._clock()
            if now - self._looked < least:
                return
            hours, self._looked = (now - self._looked) / _HOUR, now
            self.spent["wall_clock_hours"] += hours
            if self._price is not None:
                self.spent["money"] += hours * self._nodes() * self._price
            write_atomic(self._path, json.dumps(self.spent))


def _read(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}
    try:
        return {name: float(value) for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (ValueError, TypeError, AttributeError):
        raise TicketsError(
            f"{path} is damaged, so the cost of the search so far is unknown. Correct it by hand, or remove it to "
            "count from 0 again"
        ) from None


_SECONDS = 1.0
"""Time between two requests to the broker. Each request takes time from a stage."""


class StageWatch:
    """Emits events about running stages, inside its `with` block."""

    def __init__(
        self,
        broker: Any,  # noqa: ANN401 - an actor handle
        label: Callable[[str], int | str | None],
        emit: Callable[[Event], None],
        charge: Callable[[float], None] | None = None,
    ) -> None:
        """Prepare the watch.

        Args:
            broker: The actor handle of the broker.
            label: Returns the trial number or the name for a waiter of the broker; None: it is not shown.
            emit: Called with every event.
            charge: Called with the seconds that stages have computed since the last call.
        """
        self._broker = broker
        self._label = label
        self._emit = emit
        self._charge = charge
        self._stages: dict[int | str, str] = {}
        self._elsewhere: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stage-watch", daemon=True)

    def __enter__(self) -> "StageWatch":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join(timeout=5.0)
        self._look()

    def _watch(self) -> None:
        while not self._end.wait(_SECONDS):
            self._look()

    def _look(self) -> None:
        with suppress(Exception):  # only a view: a broker that restarts must not end the search
            self._tell(ray.get(self._broker.snapshot.remote(), timeout=5.0))
            if self._charge is not None:
                self._charge(ray.get(self._broker.take_seconds.remote(), timeout=5.0))

    def _tell(self, running: list[dict[str, Any]]) -> None:
        for stage in running:
            if stage["elsewhere"]:
                self._tell_elsewhere(stage)
                continue
            for waiter in stage["waiters"]:
                label = self._label(waiter)
                if label is None:
                    continue
                if self._stages.get(label) != stage["stage"]:
                    self._stages[label] = stage["stage"]
                    self._emit(StageChanged(label, stage["stage"], cached=False))
                if stage["total"]:
                    self._emit(Progress(label, stage["stage"], stage["done"], stage["total"]))

    def _tell_elsewhere(self, stage: dict[str, Any]) -> None:
        if stage["digest"] not in self._elsewhere:
            self._elsewhere.add(stage["digest"])
            self._emit(Note(f"Stage {stage['stage']} is computed by {stage['elsewhere']}: waiting for its result"))


_NOT_METRICS = {"stage", "step", "epoch"}


class Stopper(Unpickled, tune.Stopper):
    """Ends the search after Ctrl-C, after too many failures in a row, or when the budget is spent."""

    def __init__(self, ledger: Ledger) -> None:
        self.reason: str | None = None
        self.ledger = ledger
        self.out_of_budget = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return False: the scheduler stops single trials."""
        return False

    def stop_all(self) -> bool:
        """Return whether the whole search must end."""
        if self.reason is None and (spent := self.ledger.exhausted()):
            self.reason, self.out_of_budget = spent, True
        return self.reason is not None


class Observer(Unpickled, tune.Callback):
    """Keeps the records of trials. Each is on disk before the next trial is proposed."""

    def __init__(
        self,
        experiment: Experiment,
        searcher: TicketSearch,
        results: Results,
        tracker: AnyTracker,
        emit: Callable[[Event], None],
        stopper: Stopper,
    ) -> None:
        self.trials: dict[str, TrialRecord] = {}
        self._experiment = experiment
        self._searcher = searcher
        self._results = results
        self._store = Store(results.store_url)
        self._tracker = tracker
        self._emit = emit
        self._stopper = stopper
        self._started: dict[str, float] = {}
        self._running: dict[str, Trial] = {}
        self._last: dict[str, dict[str, Any]] = {}
        self._rungs: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._failures = 0
        self._tell_values: Callable[[tuple[float, ...]], None] | None = None

    def recall(self, records: Iterable[TrialRecord]) -> None:
        """Take over the trials of earlier sessions, and log those to MLflow that are missing there."""
        for record in records:
            self.trials[record.id] = record
            if not self._tracker.has_ended(record.id):
                self._tracker.finish_trial(record, self._artifacts(record, self._experiment.at(record.params)))

    def follow(self, tell: Callable[[tuple[float, ...]], None]) -> None:
        """Call `tell` with the values of every finished trial, for the early exit of others."""
        self._tell_values = tell
        for trial in self.trials.values():
            if trial.status == "complete" and trial.values is not None:
                self._reached(trial.values)

    def _reached(self, values: tuple[float, ...]) -> None:
        if self._tell_values is not None and self._experiment.settings.evaluation.early_exit:
            self._tell_values(values)

    def number_of(self, trial_id: str) -> int:
        """Return the number of a trial in tables and records."""
        return self._searcher.number(trial_id)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """Report a new trial. Nothing happens if it restarts on another actor."""
        if trial.trial_id in self._started:
            return
        self._started[trial.trial_id], self._running[trial.trial_id] = time.monotonic(), trial
        number = self.number_of(trial.trial_id)
        self._tracker.start_trial(name_of(number), number, trial.config)
        self._emit(TrialStarted(number, trial.config))

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,  # noqa: ANN401
    ) -> None:
        """Take a record of a stage, or the last report of a trial."""
        self._last[trial.trial_id] = result
        if PROBE in result:
            self._rungs[trial.trial_id].append((int(result[EPOCH]), float(result[PROBE])))
        if "record" in result:
            self._pass_on(self.number_of(trial.trial_id), result["record"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """Record a trial that ended by itself, by the scheduler, or with an error in its last report."""
        last = self._last.get(trial.trial_id, {})
        if FAILED in last:
            self._fail(trial)
            return
        values = self._values(last)
        self._failures = 0
        if values is not None:
            self._reached(values)
        self._finish(trial, "complete" if values is not None else "pruned", last, values)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """Record a trial whose process died too often."""
        self._fail(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """Forget the epochs of a trial whose process died: the new process repeats them from the store."""
        self._rungs.pop(trial.trial_id, None)

    def _fail(self, trial: Trial) -> None:
        """Record a failure. Several in a row end the search."""
        self._finish(trial, "failed", self._last.get(trial.trial_id, {}), None)
        self._failures += 1
        if self._failures >= self._experiment.settings.search.failures_in_a_row and self._stopper.reason is None:
            self._stopper.reason = f"{self._failures} trials in a row failed"

    def close(self) -> None:
        """Record the trials that were running when the search ended."""
        for trial in self._running.values():
            if name_of(self.number_of(trial.trial_id)) not in self.trials:
                self._finish(trial, "interrupted", self._last.get(trial.trial_id, {}), None)

    def _pass_on(self, number: int, record: dict[str, Any]) -> None:
        metrics = {
            key: float(value)
            for key, value in record.items()
            if key not in _NOT_METRICS and isinstance(value, int | float) and not isinstance(value, bool)
        }
        stage, step = record["stage"], int(record.get("step", 0))
        self._tracker.log(name_of(number), {f"{stage}/{key}": value for key, value in metrics.items()}, step)
        if "epoch" in record:
            self._emit(EpochReport(number, {"epoch": float(record["epoch"]), **metrics}))

    def _values(self, result: dict[str, Any]) -> tuple[float, ...] | None:
        values = tuple(float(result.get(name, math.nan)) for name in names(self._experiment.settings.objective))
        return values if all(math.isfinite(value) for value in values) else None

    def _finish(
        self, trial: Trial, status: TrialStatus, result: dict[str, Any], values: tuple[float, ...] | None
    ) -> None:
        number = self.number_of(trial.trial_id)
        settings = self._experiment.at(trial.config)
        outcome = Outcome.model_validate_json(result["outcome"]) if "outcome" in result else None
        stages = _stages(result)
        record = TrialRecord(
            id=name_of(number),
            number=number,
            attempt=self._searcher.attempt(trial.trial_id),
            status=status,
            method=settings.method.kind,
            title=title(settings),
            uses_ood_information=uses_ood_information(settings),
            params=dict(trial.config),
            metrics=outcome.metrics() if outcome else {},
            values=values,
            bound=tuple(result[BOUND]) if BOUND in result else None,
            feasible=None if outcome is None else not outcome.flags,
            outcome=outcome,
            stages=stages,
            cost=cost_of(stages, outcome.retrain_digest) if outcome else None,
            error=_error(trial, result) if status == "failed" else None,
            rungs=tuple(self._rungs[trial.trial_id]),
            seconds=time.monotonic() - self._started.get(trial.trial_id, time.monotonic()),
        )
        self.trials[record.id] = record
        if status != "interrupted":  # these run again when the search is resumed
            # In this order: Optuna can be told again from the record, but not the other way round.
            self._results.add_trial(record)
            self._searcher.tell(trial.trial_id, record)
        self._tracker.finish_trial(record, self._artifacts(record, settings))
        note = record.error or result.get("note") or "; ".join(outcome.flags if outcome else ())
        may_win = record.feasible is not False
        self._emit(TrialFinished(number, status, values, headline(record.metrics), note, feasible=may_win))

    def _artifacts(self, record: TrialRecord, settings: Settings) -> dict[str, Path]:
        own = trial_artifacts(record.id, record.stages, settings, self._store, self._results)
        return own | transfer_artifacts(record.id, record.outcome, self._store, self._results)


def _stages(result: dict[str, Any]) -> tuple[StageRecord, ...]:
    return tuple(StageRecord.model_validate(stage) for stage in json.loads(result.get("stages", "[]")))


def name_of(number: int) -> str:
    """Return the id of a trial, which is the same in every session of an experiment."""
    return f"t{number:03d}"


def _error(trial: Trial, result: dict[str, Any]) -> str:
    if FAILED in result:
        return str(result[FAILED])
    cause = trial.get_pickled_error()
    return f"the trial's process ended: {cause}" if cause is not None else "the trial's process ended without an error"
