"""What training costs are compared with: PGD and FreeLB training of the whole model, measured here or computed."""

from typing import Literal, get_args

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.adversary import Adversary
from tune_tickets.config.title import ADVERSARIES
from tune_tickets.records import CostBaseline, TrialRecord
from tune_tickets.space import reference

Kind = Literal["pgd", "freelb"]


def cost_baselines(experiment: Experiment, trials: list[TrialRecord]) -> tuple[CostBaseline, ...]:
    """One per adversary: its best trial of this experiment, else what the reference settings would take."""
    return tuple(
        _measured(kind, experiment, trials) or _computed(kind, reference(experiment)) for kind in get_args(Kind)
    )


def _measured(kind: Kind, experiment: Experiment, trials: list[TrialRecord]) -> CostBaseline | None:
    """The best of the fine-tunings with this adversary and nothing else, able to win or not; the earlier of equals."""
    found = [trial for trial in trials if trial.title == ADVERSARIES[kind] and trial.values]
    if not found:
        return None
    best = max(found, key=lambda trial: (sum(trial.values or ()), -trial.number))
    if best.cost is None:
        return None
    retraining = experiment.at(best.params).retraining
    return CostBaseline(
        adversary=kind,
        trial=best.id,
        steps=retraining.adversary.steps,
        epochs=retraining.epochs,
        passes=best.cost.retraining.passes,
        seconds=best.cost.retraining.seconds,
    )


def _computed(kind: Kind, settings: Settings) -> CostBaseline:
    """As many epochs as the controls are trained for."""
    adversary = Adversary(kind=kind, steps=_steps(settings))
    epochs = settings.retraining.epochs
    return CostBaseline(
        adversary=kind,
        trial=None,
        steps=adversary.steps,
        epochs=epochs,
        passes=float(epochs * adversary.passes),
        seconds=None,
    )


def _steps(settings: Settings) -> int:
    """K of the adversary that the experiment trains with, in its search or its retraining."""
    for section in (settings.method, settings.retraining):
        adversary = getattr(section, "adversary", None)
        if isinstance(adversary, Adversary) and adversary.kind != "none":
            return adversary.steps
    return Adversary().steps
