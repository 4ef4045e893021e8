"""Judging a ticket: the value or values Optuna is told, and whether the ticket may win at all."""

from collections.abc import Sequence
from dataclasses import dataclass

from tune_tickets.config.objective import Objective
from tune_tickets.records import CleanFigures, Outcome

BELOW_FLOOR = "below the floor"
NEAR_CONSTANT = "near-constant predictor"


@dataclass(frozen=True)
class Verdict:
    """`values` are maximised. `objections` say why a ticket may not win; an infeasible ticket has negative values."""

    values: tuple[float, ...]
    objections: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether the ticket may win."""
        return not self.objections


def names(objective: Objective) -> tuple[str, ...]:
    """The names of the values, in order."""
    return ("clean_value", "aua_value") if objective.kind == "pareto" else ("objective",)


def judge(objective: Objective, outcome: Outcome, dense: Outcome | None) -> Verdict:
    """The verdict on a ticket, measured against the dense control."""
    attacked = [figures.accuracy_under_attack for figures in outcome.attacks]
    return weigh(objective, outcome.clean, attacked, dense)


def weigh(objective: Objective, measured: CleanFigures, attacked: Sequence[float], dense: Outcome | None) -> Verdict:
    """The verdict by clean accuracy and accuracy under each attack.

    A model that answers the same for everything cannot be attacked, so accuracy under attack alone, or in a sum, would
    choose it. Below the floor the value is minus the missing points: worse than every feasible ticket (those are >= 0),
    yet better the nearer the floor, so that the sampler still learns.
    """
    clean = measured.accuracy
    aua = sum(attacked) / len(attacked) if attacked else clean
    missing = _floor(objective, dense) - clean
    objections = []
    if missing > 1e-9:
        objections.append(f"{BELOW_FLOOR} by {missing:.1f} points of clean accuracy")
    if measured.majority_share >= 100.0 * objective.near_constant:
        objections.append(f"{NEAR_CONSTANT}: {measured.majority_share:.0f}% of rows get one label")
    values = _values(objective, clean, aua)
    if objections:
        values = tuple(-max(missing, 0.0) / 100.0 - 1e-6 for _ in values)
    return Verdict(values, tuple(objections))


def _floor(objective: Objective, dense: Outcome | None) -> float:
    floors = [0.0]
    if objective.floor_points is not None and dense is not None:
        floors.append(dense.clean.accuracy - objective.floor_points)
    if objective.floor_clean is not None:
        floors.append(objective.floor_clean)
    return max(floors)


def _values(objective: Objective, clean: float, aua: float) -> tuple[float, ...]:
    """In [0, 1] each."""
    clean, aua = clean / 100.0, aua / 100.0
    if objective.kind == "pareto":
        return clean, aua
    if objective.kind == "harmonic":
        return (2 * clean * aua / (clean + aua) if clean + aua > 0 else 0.0,)
    total = objective.clean_weight + objective.attack_weight
    return ((objective.clean_weight * clean + objective.attack_weight * aua) / total,)
