"""Connects Optuna with Ray Tune: a persistent study, exact trial states, and a sampler that is seeded per trial."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState
from ray.tune.search import Searcher

from tune_tickets.config import Experiment
from tune_tickets.config.domain import Scalar
from tune_tickets.results.objective import names
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.samplers import make_sampler
from tune_tickets.search.space import sample, warm_starts
from tune_tickets.search.trainable import BOUND


class Unpickled:
    """Base of objects that Tune must not pickle or copy, because they hold databases and locks."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (f"a {type(self).__name__} of the driver",)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Unpickled":
        return self


RETRY_OF = "retry_of"
"""User attribute of an Optuna trial: the number of the failed trial that it retries. Optuna cannot rerun a trial."""
_FIXED = "fixed_params"
"""System attribute with the values of an enqueued trial. Optuna has no public call that returns them."""


@dataclass
class Place:
    """The number of a trial, and all Optuna trials that ran it, in order."""

    number: int
    tries: list[FrozenTrial] = field(default_factory=list)

    @property
    def fixed(self) -> Collection[str]:
        """Names of the parameters that were enqueued with a value."""
        return tuple(self.last.system_attrs.get(_FIXED, ())) if self.tries else ()

    @property
    def last(self) -> FrozenTrial:
        """The latest try. It is the one that counts."""
        return self.tries[-1]


def _places(study: optuna.Study) -> list[Place]:
    """Return all trials of a study in order. Retries do not change the numbers."""
    found: list[Place] = []
    for trial in study.get_trials(deepcopy=False):
        again = trial.user_attrs.get(RETRY_OF)
        if again is None:
            found.append(Place(len(found)))
        found[-1 if again is None else again].tries.append(trial)
    return found


class _SeededTrial:
    """An Optuna trial in which every parameter is drawn with its own seed.

    If the driver is killed while it draws a trial, the next driver draws the same values for the other parameters.
    Parameters that a sampler draws together are drawn first, by the sampler without a name.
    """

    def __init__(
        self, trial: optuna.Trial, fixed: Collection[str], sampler: Callable[[str | None], BaseSampler]
    ) -> None:
        """`fixed` names the parameters that were enqueued with a value."""
        self._trial, self._fixed, self._sampler = trial, fixed, sampler

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Like `optuna.Trial`."""
        return self._seeded(name).suggest_float(name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """Like `optuna.Trial`."""
        return self._seeded(name).suggest_int(name, low, high, step=step)

    def suggest_categorical(self, name: str, choices: tuple[Scalar, ...]) -> Scalar:
        """Like `optuna.Trial`."""
        value: Scalar = self._seeded(name).suggest_categorical(name, choices)
        return value

    def _seeded(self, name: str) -> optuna.Trial:
        if name not in self._trial.params and name not in self._fixed:
            self._trial.study.sampler = self._sampler(None)
            self._trial.relative_params  # noqa: B018 - the first access draws them
            self._trial.study.sampler = self._sampler(name)
        return self._trial


_STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


@dataclass(frozen=True)
class Found:
    """The state from which a search resumes, as numbers of trials."""

    finished: int
    failed: int
    """Those of the finished trials that ended with an error and are not retried."""
    again: int
    retried: int

    def describe(self) -> str:
        """Return the state as one sentence."""
        failed = f" ({self.failed} with an error; --retry-errors retries them)" if self.failed else ""
        retried = f", retried after an error: {self.retried}" if self.retried else ""
        return f"Resumed. Trials finished: {self.finished}{failed}, continued: {self.again}{retried}"


class TicketSearch(Unpickled, Searcher):
    """Ray Tune's searcher on an Optuna study. The study is the only state; nothing is pickled.

    A trial ends when its record is on disk and `tell` is called. Until then it is RUNNING in the storage, and the
    searcher of a later session continues it under the same number.
    """

    def __init__(
        self,
        experiment: Experiment,
        storage: optuna.storages.BaseStorage,
        records: Iterable[TrialRecord] | None = None,
        retry_errors: bool = False,
    ) -> None:
        """Open the study, or create it.

        Args:
            experiment: The experiment; its name and digest identify the study.
            storage: Where the study is kept.
            records: The trial records on disk. A trial that has ended in the storage but has no record runs again. If
                None, the states in the storage are taken as they are.
            retry_errors: Whether to enqueue failed trials again.
        """
        super().__init__()
        self._experiment, self._storage = experiment, storage
        self.study = optuna.create_study(
            storage=storage,
            sampler=make_sampler(experiment, 0),
            pruner=optuna.pruners.NopPruner(),
            study_name=_study_name(experiment),
            directions=["maximize"] * len(names(experiment.settings.objective)),
            load_if_exists=True,
        )
        self._trials: dict[str, optuna.Trial] = {}
        self._numbers: dict[str, int] = {}
        self._attempts: dict[str, int] = {}
        self._enqueue_warm_starts()
        self._again = self._left_undone(None if records is None else {record.number: record for record in records})
        if retry_errors:
            self._enqueue_errors()

    @property
    def found(self) -> Found:
        """The state from which the search resumes."""
        last = [place.last for place in _places(self.study)]
        done = [trial for trial in last if self._is_done(trial)]
        failed = sum(trial.state == TrialState.FAIL for trial in done)
        retried = sum(trial.state == TrialState.WAITING and RETRY_OF in trial.user_attrs for trial in last)
        return Found(len(done), failed, len(self._again), retried)

    def number(self, trial_id: str) -> int:
        """Return the number of a trial in tables and records."""
        return self._numbers[trial_id]

    def attempt(self, trial_id: str) -> int:
        """Return how often a trial has been tried, including this time."""
        return self._attempts[trial_id]

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Propose a trial: first unfinished trials, then enqueued ones, then a draw of the sampler."""
        place, trial = self._take()
        self._trials[trial_id] = trial
        self._numbers[trial_id], self._attempts[trial_id] = place.number, max(1, len(place.tries))
        if place.tries and place.last.state.is_finished():  # it has all parameters, and runs again for its record
            return dict(sample(self._experiment, trial))
        sampler = cache(partial(make_sampler, self._experiment, place.number))
        return dict(sample(self._experiment, _SeededTrial(trial, place.fixed, sampler)))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing: Tune calls this before the record is on disk. `tell` is called afterwards."""

    def tell(self, trial_id: str, record: TrialRecord) -> None:
        """Tell Optuna how a trial ended, once its record is on disk. A second call has no effect."""
        self._tell(self._trials[trial_id].number, record)

    def finished(self) -> int:
        """Return the number of trials that need not run again."""
        return self.found.finished

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the storage holds the whole state."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Do nothing, for the same reason."""

    def _take(self) -> tuple[Place, optuna.Trial]:
        known = _places(self.study)
        if self._again:
            place = next(place for place in known if place.number == self._again[0])
            self._again = self._again[1:]
            # `study.ask` only returns new and waiting trials, so a running one is opened by its id.
            return place, optuna.Trial(self.study, self._storage_id(place.last.number))
        waiting = [place for place in known if place.last.state == TrialState.WAITING]
        # Optuna takes the one that was enqueued first.
        place = min(waiting, key=lambda place: place.last.number, default=Place(len(known)))
        return place, self.study.ask()

    def _storage_id(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(self.study.study_name)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def _is_done(self, trial: FrozenTrial) -> bool:
        return trial.state.is_finished() and trial.number not in self._unrecorded

    def _enqueue_warm_starts(self) -> None:
        """Enqueue the missing ones: a driver may have been killed between two of them."""
        enqueued = sum(_FIXED in place.tries[0].system_attrs for place in _places(self.study))
        for point in warm_starts(self._experiment)[enqueued:]:
            self.study.enqueue_trial(point)

    def _left_undone(self, records: dict[int, TrialRecord] | None) -> list[int]:
        """Return the numbers of unfinished trials. Running trials whose record is on disk are finished from it."""
        self._unrecorded: set[int] = set()
        undone = []
        for place in _places(self.study):
            record = (records or {}).get(place.number)
            if place.last.state == TrialState.RUNNING:
                if record is not None and record.attempt == len(place.tries):
                    self._tell(place.last.number, record)
                else:
                    undone.append(place.number)
            elif place.last.state.is_finished() and records is not None and record is None:
                self._unrecorded.add(place.last.number)
                undone.append(place.number)
        return undone

    def _enqueue_errors(self) -> None:
        for place in _places(self.study):
            if place.last.state == TrialState.FAIL and self._is_done(place.last):
                self.study.enqueue_trial(place.last.params, user_attrs={RETRY_OF: place.number})

    def _tell(self, number: int, record: TrialRecord) -> None:
        trial = self.study.get_trials(deepcopy=False)[number]
        if record.bound is not None and not trial.state.is_finished():
            self._storage.set_trial_user_attr(self._storage_id(number), BOUND, list(record.bound))
        values = None if record.values is None else list(record.values)
        self.study.tell(number, values, state=_STATES[record.status], skip_if_finished=True)
        self._unrecorded.discard(number)


def _study_name(experiment: Experiment) -> str:
    """Return a name that depends on the whole experiment, so that two experiments on one storage never mix."""
    return f"{experiment.settings.name}-{experiment.digest[:12]}"
