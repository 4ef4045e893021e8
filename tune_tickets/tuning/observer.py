"""The driver's eye on Ray Tune: turns callbacks into trial records, MLflow runs and events."""

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.information import uses_ood_information
from tune_tickets.config.title import title
from tune_tickets.objective import names
from tune_tickets.records import Outcome, StageRecord, TrialRecord, TrialStatus, cost_of, headline
from tune_tickets.reporting.progress import EpochReport, Event, TrialFinished, TrialStarted
from tune_tickets.tracking.protocol import AnyTracker
from tune_tickets.trial.store import Store
from tune_tickets.trial.trainable import BOUND, EPOCH, FAILED, PROBE
from tune_tickets.tuning.artifacts import transfer_artifacts, trial_artifacts
from tune_tickets.tuning.ledger import Ledger
from tune_tickets.tuning.results import Results
from tune_tickets.tuning.searcher import TicketSearch
from tune_tickets.tuning.unpickled import Unpickled

_NOT_METRICS = {"stage", "step", "epoch"}


class Stopper(Unpickled, tune.Stopper):
    """Ends the search when asked to: by Ctrl-C, after too many failures in a row, or when the budget is spent."""

    def __init__(self, ledger: Ledger) -> None:
        self.reason: str | None = None
        self.ledger = ledger
        self.out_of_budget = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Single trials are ended by the scheduler, not here."""
        return False

    def stop_all(self) -> bool:
        """Whether the whole search is to end."""
        if self.reason is None and (spent := self.ledger.exhausted()):
            self.reason, self.out_of_budget = spent, True
        return self.reason is not None


class Observer(Unpickled, tune.Callback):
    """Keeps the records of trials; everything it learns is on disk before the next trial is proposed."""

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
        self._last: dict[str, dict[str, Any]] = {}
        self._rungs: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._failures = 0
        self._tell_values: Callable[[tuple[float, ...]], None] | None = None

    def recall(self, records: Iterable[TrialRecord]) -> None:
        """Go on from what earlier sessions have finished; what one of them could not tell MLflow any more is told."""
        for record in records:
            self.trials[record.id] = record
            if not self._tracker.has_ended(record.id):
                self._tracker.finish_trial(record, self._artifacts(record, self._experiment.at(record.params)))

    def follow(self, tell: Callable[[tuple[float, ...]], None]) -> None:
        """Tell there what finished trials have reached, those of earlier sessions first: others must beat them."""
        self._tell_values = tell
        for trial in self.trials.values():
            if trial.status == "complete" and trial.values is not None:
                self._reached(trial.values)

    def _reached(self, values: tuple[float, ...]) -> None:
        if self._tell_values is not None and self._experiment.settings.evaluation.early_exit:
            self._tell_values(values)

    def number_of(self, trial_id: str) -> int:
        """The number under which people know a trial."""
        return self._searcher.number(trial_id)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """A trial begins (or begins again on another actor)."""
        if trial.trial_id in self._started:
            return
        self._started[trial.trial_id] = time.monotonic()
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
        """A record of a stage, or the last word of a trial."""
        self._last[trial.trial_id] = result
        if PROBE in result:
            self._rungs[trial.trial_id].append((int(result[EPOCH]), float(result[PROBE])))
        if "record" in result:
            self._pass_on(self.number_of(trial.trial_id), result["record"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """A trial ran to its end, or the scheduler ended it, or its last word is of an error."""
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
        """The process of a trial died, more often than it may."""
        self._fail(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """The process of a trial died and another takes its place: all is told once more, from the store."""
        self._rungs.pop(trial.trial_id, None)

    def _fail(self, trial: Trial) -> None:
        """Several in a row end the search."""
        self._finish(trial, "failed", self._last.get(trial.trial_id, {}), None)
        self._failures += 1
        if self._failures >= self._experiment.settings.search.failures_in_a_row and self._stopper.reason is None:
            self._stopper.reason = f"{self._failures} trials in a row failed"

    def close(self, trials: list[Trial]) -> None:
        """Record the trials that were cut off when the search ended."""
        for trial in trials:
            if trial.trial_id in self._started and name_of(self.number_of(trial.trial_id)) not in self.trials:
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
        if status != "interrupted":  # those are taken up again when the search is resumed
            # In this order: what was told can be told again from the record, but not the other way round.
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
    """The stable id of a trial: the same in every session of an experiment."""
    return f"t{number:03d}"


def _error(trial: Trial, result: dict[str, Any]) -> str:
    if FAILED in result:
        return str(result[FAILED])
    cause = trial.get_pickled_error()
    return f"the trial's process ended: {cause}" if cause is not None else "the trial's process ended without a word"
