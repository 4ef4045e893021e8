"""OptunaSearch as we need it: on persistent storage, with honest trial states and a sampler seeded per trial."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState
from ray.tune.search.optuna import OptunaSearch

from tune_tickets.config import Experiment
from tune_tickets.config.domain import Scalar
from tune_tickets.results.objective import names
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.samplers import make_sampler
from tune_tickets.search.space import sample, warm_starts
from tune_tickets.search.trainable import BOUND


class Unpickled:
    """Tune pickles and copies what it is given. Ours hold databases and locks, and exist once."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (f"a {type(self).__name__} that lived in the driver",)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Unpickled":
        return self


RETRY_OF = "retry_of"
"""User attribute of an Optuna trial that tries the trial of that number again. A failed one can never run again."""


@dataclass
class Place:
    """The number of a trial, and all its tries in order."""

    number: int
    tries: list[FrozenTrial] = field(default_factory=list)

    @property
    def fixed(self) -> Collection[str]:
        """The parameters that were enqueued with their values."""
        return tuple(self.last.system_attrs.get("fixed_params", ())) if self.tries else ()

    @property
    def last(self) -> FrozenTrial:
        """The try that counts."""
        return self.tries[-1]


def places(study: optuna.Study) -> list[Place]:
    """All trials of a study in order; numbers have no gaps, however often trials were tried again."""
    found: list[Place] = []
    for trial in study.get_trials(deepcopy=False):
        again = trial.user_attrs.get(RETRY_OF)
        if again is None:
            found.append(Place(len(found)))
        found[-1 if again is None else again].tries.append(trial)
    return found


class SeededTrial:
    """An Optuna trial in which every parameter is drawn with a seed of its own.

    If the driver is killed while a trial is being drawn, the rest is drawn by the next one, as it would have been. What
    a sampler draws for all parameters together comes first, from the sampler without a name.
    """

    def __init__(
        self, trial: optuna.Trial, fixed: Collection[str], sampler: Callable[[str | None], BaseSampler]
    ) -> None:
        """`fixed` names the parameters that were enqueued with their values."""
        self._trial, self._fixed, self._sampler = trial, fixed, sampler

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """As Optuna's."""
        return self._seeded(name).suggest_float(name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """As Optuna's."""
        return self._seeded(name).suggest_int(name, low, high, step=step)

    def suggest_categorical(self, name: str, choices: tuple[Scalar, ...]) -> Scalar:
        """As Optuna's."""
        value: Scalar = self._seeded(name).suggest_categorical(name, choices)
        return value

    def _seeded(self, name: str) -> optuna.Trial:
        if name not in self._trial.params and name not in self._fixed:
            self._trial.study.sampler = self._sampler(None)
            self._trial.relative_params  # noqa: B018 - drawn at the first look, and kept
            self._trial.study.sampler = self._sampler(name)
        return self._trial


_STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


@dataclass(frozen=True)
class Found:
    """What a search goes on from."""

    finished: int
    failed: int
    """Of the finished ones: those that ended with an error and are not tried again."""
    again: int
    retried: int

    def describe(self) -> str:
        """In a sentence."""
        failed = f" ({self.failed} with an error; --retry-errors tries them again)" if self.failed else ""
        retried = f", to be tried again after an error: {self.retried}" if self.retried else ""
        return f"Resumed. Trials finished: {self.finished}{failed}, taken up again: {self.again}{retried}"


class TicketSearch(Unpickled, OptunaSearch):
    """Differs from its base where that would lose or bend results.

    A trial ends when its record is on disk and `tell` is called with it: until then it is RUNNING in the storage, and a
    searcher built there later takes it up again under its number. Nothing is pickled.
    """

    def __init__(
        self,
        experiment: Experiment,
        storage: optuna.storages.BaseStorage,
        records: Iterable[TrialRecord] | None = None,
        retry_errors: bool = False,
    ) -> None:
        """`records` are those on disk; without any to go by, what the storage says is taken for the whole truth."""
        self._experiment = experiment
        metrics = list(names(experiment.settings.objective))
        single = len(metrics) == 1
        super().__init__(
            space=partial(sample, experiment),
            metric=metrics[0] if single else metrics,
            mode="max" if single else ["max"] * len(metrics),
            sampler=make_sampler(experiment, 0),
            study_name=study_name(experiment),
            storage=storage,
        )
        self._numbers: dict[str, int] = {}
        self._attempts: dict[str, int] = {}
        self._enqueue_warm_starts()
        self._again = self._left_undone(None if records is None else {record.number: record for record in records})
        if retry_errors:
            self._enqueue_errors()

    @property
    def study(self) -> optuna.Study:
        """The study behind the search."""
        study: optuna.Study = self.__dict__["_ot_study"]
        return study

    @property
    def found(self) -> Found:
        """What there is to go on from."""
        last = [place.last for place in places(self.study)]
        done = [trial for trial in last if self._is_done(trial)]
        failed = sum(trial.state == TrialState.FAIL for trial in done)
        retried = sum(trial.state == TrialState.WAITING and RETRY_OF in trial.user_attrs for trial in last)
        return Found(len(done), failed, len(self._again), retried)

    def number(self, trial_id: str) -> int:
        """The number under which people know a trial."""
        return self._numbers[trial_id]

    def attempt(self, trial_id: str) -> int:
        """1, or one more for each time that it was tried before and failed."""
        return self._attempts[trial_id]

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Propose a trial: what was left undone comes first, then what is enqueued, then what the sampler draws."""
        place, trial = self._take()
        self._ot_trials[trial_id] = trial
        self._numbers[trial_id], self._attempts[trial_id] = place.number, max(1, len(place.tries))
        if place.tries and place.last.state.is_finished():  # all is drawn; it runs once more for its record
            return dict(sample(self._experiment, trial))
        sampler = cache(partial(make_sampler, self._experiment, place.number))
        return dict(sample(self._experiment, SeededTrial(trial, place.fixed, sampler)))

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Nothing: intermediate reports carry no objective."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: Tune says so before the record is on disk, and `tell` comes after."""

    def tell(self, trial_id: str, record: TrialRecord) -> None:
        """Tell Optuna how a trial ended, once its record is on disk; a second word changes nothing."""
        self._tell(self._ot_trials[trial_id].number, record)

    def finished(self) -> int:
        """Trials that need not be run again."""
        return self.found.finished

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the storage holds all there is."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing, likewise."""

    def _take(self) -> tuple[Place, optuna.Trial]:
        known = places(self.study)
        if self._again:
            place = next(place for place in known if place.number == self._again[0])
            self._again = self._again[1:]
            return place, optuna.Trial(self.study, place.last._trial_id)
        waiting = [place for place in known if place.last.state == TrialState.WAITING]
        # Optuna takes the one that was enqueued first.
        place = min(waiting, key=lambda place: place.last.number, default=Place(len(known)))
        return place, self.study.ask()

    def _is_done(self, trial: FrozenTrial) -> bool:
        return trial.state.is_finished() and trial.number not in self._unrecorded

    def _enqueue_warm_starts(self) -> None:
        """Those that are missing: a driver may have been killed between two of them."""
        enqueued = sum("fixed_params" in place.tries[0].system_attrs for place in places(self.study))
        for point in warm_starts(self._experiment)[enqueued:]:
            self.study.enqueue_trial(point)

    def _left_undone(self, records: dict[int, TrialRecord] | None) -> list[int]:
        """Numbers of trials that a driver left before their end; those whose record is on disk are told from it."""
        self._unrecorded: set[int] = set()
        undone = []
        for place in places(self.study):
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
        for place in places(self.study):
            if place.last.state == TrialState.FAIL and self._is_done(place.last):
                self.study.enqueue_trial(place.last.params, user_attrs={RETRY_OF: place.number})

    def _tell(self, number: int, record: TrialRecord) -> None:
        trial = self.study.get_trials(deepcopy=False)[number]
        if record.bound is not None and not trial.state.is_finished():
            self.study._storage.set_trial_user_attr(trial._trial_id, BOUND, list(record.bound))
        values = None if record.values is None else list(record.values)
        self.study.tell(number, values, state=_STATES[record.status], skip_if_finished=True)
        self._unrecorded.discard(number)


def study_name(experiment: Experiment) -> str:
    """Named after the experiment and its content, so that two experiments on one storage never mix."""
    return f"{experiment.settings.name}-{experiment.digest[:12]}"
