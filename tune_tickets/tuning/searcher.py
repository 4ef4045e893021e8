"""OptunaSearch as we need it: on persistent storage, with honest trial states and a sampler seeded per trial."""

import math
from functools import partial
from typing import Any

import optuna
from optuna.trial import TrialState
from ray.tune.search.optuna import OptunaSearch

from tune_tickets.config import Experiment
from tune_tickets.config.search import Search
from tune_tickets.objective import names
from tune_tickets.space import sample, warm_starts
from tune_tickets.trial.trainable import BOUND
from tune_tickets.tuning.unpickled import Unpickled

INTERRUPTED = "interrupted"
"""User attribute of Optuna trials that ended because the driver did; resuming proposes their params again."""


class TicketSearch(Unpickled, OptunaSearch):
    """Differs from its base where that would lose or bend results.

    Reports without the objective are ignored; a trial ends FAIL on error, PRUNED when an objective is missing or NaN,
    COMPLETE otherwise, and never stays RUNNING. Nothing is pickled: a search is rebuilt from its storage.
    """

    def __init__(self, experiment: Experiment, storage: optuna.storages.BaseStorage) -> None:
        self._experiment = experiment
        metrics = list(names(experiment.settings.objective))
        single = len(metrics) == 1
        super().__init__(
            space=partial(sample, experiment),
            metric=metrics[0] if single else metrics,
            mode="max" if single else ["max"] * len(metrics),
            sampler=_sampler(experiment.settings.search, experiment.settings.seed, 0),
            study_name=study_name(experiment),
            storage=storage,
        )
        self._metrics = metrics
        self._requeue()

    @property
    def study(self) -> optuna.Study:
        """The study behind the search."""
        study: optuna.Study = self.__dict__["_ot_study"]
        return study

    def number(self, trial_id: str) -> int:
        """The Optuna number of a trial."""
        return int(self._ot_trials[trial_id].number)

    def params(self, trial_id: str) -> dict[str, Any]:
        """The settings proposed for a trial."""
        return dict(self._ot_trials[trial_id].params)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Propose a trial. A sampler rebuilt with one seed would repeat its draws, so each trial has its own."""
        settings = self._experiment.settings
        number = len(self.study.get_trials(deepcopy=False))
        self.study.sampler = _sampler(settings.search, settings.seed, number)
        params: dict[str, Any] | None = super().suggest(trial_id)
        self._ot_trials[trial_id].set_user_attr("trial_id", trial_id)
        return params

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Nothing: intermediate reports carry no objective."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell Optuna how a trial ended."""
        if trial_id in self._completed_trials or trial_id not in self._ot_trials:
            return
        self._completed_trials.add(trial_id)
        values = [float((result or {}).get(metric, math.nan)) for metric in self._metrics]
        if result is not None and BOUND in result:
            self._ot_trials[trial_id].set_user_attr(BOUND, list(result[BOUND]))
        if error:
            self.study.tell(self._ot_trials[trial_id], state=TrialState.FAIL)
        elif all(math.isfinite(value) for value in values):
            self.study.tell(self._ot_trials[trial_id], values)
        else:
            self.study.tell(self._ot_trials[trial_id], state=TrialState.PRUNED)

    def end_running(self) -> None:
        """Leave no trial RUNNING: those cut off are marked, so that resuming proposes them again."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self.study._storage.set_trial_user_attr(trial._trial_id, INTERRUPTED, True)
            self.study.tell(trial.number, state=TrialState.FAIL)

    def finished(self) -> int:
        """Trials of the study that need not be run again."""
        trials = self.study.get_trials(deepcopy=False)
        done = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
        return sum(trial.state in done and not trial.user_attrs.get(INTERRUPTED) for trial in trials)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the storage holds all there is."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing, likewise."""

    def _requeue(self) -> None:
        """Warm starts on a new study; on an old one what a killed or interrupted driver left undone."""
        trials = self.study.get_trials(deepcopy=False)
        if not trials:
            for point in warm_starts(self._experiment):
                self.study.enqueue_trial(point)
            return
        self.end_running()
        trials = self.study.get_trials(deepcopy=False)
        for trial in trials:
            if trial.user_attrs.get(INTERRUPTED) and not _proposed_again(trial, trials):
                self.study.enqueue_trial(trial.params)


def study_name(experiment: Experiment) -> str:
    """Named after the experiment and its content, so that two experiments on one storage never mix."""
    return f"{experiment.settings.name}-{experiment.digest[:12]}"


def _proposed_again(interrupted: optuna.trial.FrozenTrial, trials: list[optuna.trial.FrozenTrial]) -> bool:
    later = [trial for trial in trials if trial.number > interrupted.number]
    return any(interrupted.params in (trial.params, trial.system_attrs.get("fixed_params")) for trial in later)


def _sampler(search: Search, seed: int, number: int) -> optuna.samplers.BaseSampler:
    own_seed = (seed * 1_000_003 + number) % 2**32
    if search.sampler == "random":
        return optuna.samplers.RandomSampler(seed=own_seed)
    return optuna.samplers.TPESampler(seed=own_seed, n_startup_trials=search.startup_trials)
