"""The scheduler: ASHA or the median rule on the cheap probe of every epoch, or none."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler

from tune_tickets.config import Experiment
from tune_tickets.config.search import Asha, Median
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.trainable import EPOCH, PROBE


class MedianRule(MedianStoppingRule):
    """Ray's median rule, without the last report of a trial, which is not about an epoch."""

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:  # noqa: ANN401
        """Forget earlier reports: a trial whose process died is added again and repeats its epochs."""
        # Ray has no public call that adds or removes reports without a decision.
        self._results.pop(trial, None)
        super().on_trial_add(tune_controller, trial)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:  # noqa: ANN401
        """Do nothing: all epochs of the trial are known already."""

    def recall(self, trial: Any, result: dict[str, Any]) -> None:  # noqa: ANN401
        """Add an epoch of an earlier session, without a decision about it."""
        self._results[trial].append(result)


@dataclass(frozen=True)
class _Earlier:
    """A trial of an earlier session, with the only attribute that schedulers read."""

    trial_id: str


def make_scheduler(experiment: Experiment, earlier: Iterable[TrialRecord] = ()) -> TrialScheduler:
    """Return the scheduler of `search.scheduler`, which knows the epochs of all `earlier` trials."""
    scheduler = _new_scheduler(experiment)
    for record in earlier if type(scheduler) is not FIFOScheduler else ():
        trial: Any = _Earlier(record.id)
        scheduler.on_trial_add(None, trial)  # type: ignore[arg-type]
        for epoch, score in record.rungs:
            if isinstance(scheduler, MedianRule):
                scheduler.recall(trial, {EPOCH: epoch, PROBE: score})
            else:
                scheduler.on_trial_result(None, trial, {EPOCH: epoch, PROBE: score})  # type: ignore[arg-type]
    return scheduler


def _new_scheduler(experiment: Experiment) -> TrialScheduler:
    scheduler = experiment.settings.search.scheduler
    if isinstance(scheduler, Median):
        return MedianRule(
            time_attr=EPOCH,
            metric=PROBE,
            mode="max",
            grace_period=scheduler.grace_epochs,
            min_samples_required=scheduler.least_trials,
            # Never pause a trial: it would start again from the beginning.
            min_time_slice=math.inf,  # type: ignore[arg-type]
        )
    if not isinstance(scheduler, Asha):
        return FIFOScheduler()  # type: ignore[no-untyped-call]
    longest = max(_epochs(experiment), scheduler.grace_epochs)
    return AsyncHyperBandScheduler(
        time_attr=EPOCH,
        metric=PROBE,
        mode="max",
        max_t=longest + 1,  # ASHA ends every trial at max_t, but the full attack comes after the last epoch
        grace_period=scheduler.grace_epochs,
        reduction_factor=scheduler.reduction_factor,
    )


def _epochs(experiment: Experiment) -> int:
    domain = experiment.domains.get("retraining.epochs")
    if domain is None:
        return experiment.settings.retraining.epochs
    return max(int(value) for value in domain.corners() if isinstance(value, int | float))
