"""The scheduler: ASHA on the cheap probe of every epoch, or none."""

from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from tune_tickets.config import Experiment
from tune_tickets.config.search import Asha
from tune_tickets.trial.trainable import EPOCH, PROBE


def make_scheduler(experiment: Experiment) -> TrialScheduler:
    """The scheduler that `search.scheduler` asks for."""
    scheduler = experiment.settings.search.scheduler
    if not isinstance(scheduler, Asha):
        return FIFOScheduler()  # type: ignore[no-untyped-call]
    longest = max(_epochs(experiment), scheduler.grace_epochs)
    return AsyncHyperBandScheduler(
        time_attr=EPOCH,
        metric=PROBE,
        mode="max",
        max_t=longest + 1,  # at max_t ASHA ends a trial, even the best: the full attack comes after the last epoch
        grace_period=scheduler.grace_epochs,
        reduction_factor=scheduler.reduction_factor,
    )


def _epochs(experiment: Experiment) -> int:
    domain = experiment.domains.get("retraining.epochs")
    if domain is None:
        return experiment.settings.retraining.epochs
    return max(int(value) for value in domain.corners() if isinstance(value, int | float))
