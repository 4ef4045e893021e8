"""The objective: judge a ticket, bound what it can still reach, rank tickets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tune_tickets.config.objective import Constraint, Objective
from tune_tickets.results.metrics import find, lower_is_better
from tune_tickets.results.records import Outcome, TrialRecord

LARGEST_DROP = 5.0
"""% of the dense control's clean accuracy. SRNets 4.2.2: a worse model can gain on an imbalanced twin by guessing."""


def doubtful_gains(outcome: Outcome, dense: Outcome | None) -> tuple[str, ...]:
    """Return a sentence per OOD twin on which a model beats the dense control although it is worse on the task."""
    if dense is None or outcome.clean.accuracy >= dense.clean.accuracy * (1 - LARGEST_DROP / 100.0):
        return ()
    drop = 100.0 * (1 - outcome.clean.accuracy / dense.clean.accuracy)
    control = {twin.name: twin.value for twin in dense.ood}
    return tuple(
        f"gains {twin.value - control[twin.name]:.1f} points on {twin.name}, but clean accuracy drops by {drop:.1f}% "
        f"of the dense control's (more than {LARGEST_DROP:g}%): do not rely on this gain"
        for twin in outcome.ood
        if twin.name in control and twin.value > control[twin.name]
    )


BELOW_FLOOR = "below the floor"
NEAR_CONSTANT = "near-constant predictor"
_NOISE = 1e-9


@dataclass(frozen=True)
class Judgement:
    """`values` are maximised. `objections` say why a ticket may not win; an infeasible ticket has negative values."""

    values: tuple[float, ...]
    objections: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether the ticket may win."""
        return not self.objections


def names(objective: Objective) -> tuple[str, ...]:
    """Return the names of the values, in order, without slashes: Ray Tune treats those specially."""
    if objective.kind != "pareto":
        return ("objective",)
    return tuple(f"{metric.replace('/', '.')}_value" for metric in objective.metrics)


def judge(objective: Objective, outcome: Outcome, dense: Outcome | None) -> Judgement:
    """Judge a ticket against the dense control."""
    return weigh(objective, outcome.metrics(), None if dense is None else dense.metrics())


def weigh(objective: Objective, metrics: Mapping[str, float], dense: Mapping[str, float] | None) -> Judgement:
    """Judge a ticket by its metrics and those of the dense control.

    A model that answers the same for every text cannot be attacked, so accuracy under attack alone would choose it.
    If a floor or constraint is missed, the value is minus the sum of the missing points. It is then worse than that of
    every feasible ticket (>= 0), and better the fewer points are missing, so that any sampler learns the way back. This
    is the order of Optuna's constrained domination, as values that the early exit and people can compare too.
    """
    missing = _floor(objective, dense) - metrics["clean"]
    objections = []
    if missing > _NOISE:
        objections.append(f"{BELOW_FLOOR} by {missing:.1f} points of clean accuracy")
    total = max(missing, 0.0)
    for constraint in objective.constraints:
        lacking = _lacking(constraint, metrics, dense)
        if lacking > _NOISE:
            objections.append(f"{constraint.text} is missed by {lacking:.1f} points")
            total += lacking
    objections += near_constant(objective, metrics)
    values = _values(objective, metrics)
    if objections:
        values = tuple(-total / 100.0 - 1e-6 for _ in values)
    return Judgement(values, tuple(objections))


def near_constant(objective: Objective, metrics: Mapping[str, float]) -> tuple[str, ...]:
    """Object to a model (ticket or control) that gives almost all rows the same label."""
    share = metrics["majority_share"]
    if share < 100.0 * objective.near_constant:
        return ()
    return (f"{NEAR_CONSTANT}: {share:.0f}% of rows get one label",)


def _floor(objective: Objective, dense: Mapping[str, float] | None) -> float:
    floors = [0.0]
    if objective.floor_points is not None and dense is not None:
        floors.append(dense["clean"] - objective.floor_points)
    if objective.floor_clean is not None:
        floors.append(objective.floor_clean)
    return max(floors)


def _lacking(constraint: Constraint, metrics: Mapping[str, float], dense: Mapping[str, float] | None) -> float:
    """The number of missing points; 0 or less if the constraint is met."""
    origin = 0.0
    if constraint.relative_to == "dense":
        assert dense is not None  # the schema requires the control
        origin = dense[constraint.metric]
    if constraint.at_least is not None:
        return origin + constraint.at_least - metrics[constraint.metric]
    assert constraint.at_most is not None
    return metrics[constraint.metric] - origin - constraint.at_most


def _values(objective: Objective, metrics: Mapping[str, float]) -> tuple[float, ...]:
    """In [0, 1] each, more is better."""
    goods = {name: _goodness(name, metrics[name]) for name in objective.valued}
    if objective.kind in ("pareto", "constrained"):
        return tuple(goods.values())
    if objective.kind == "harmonic":
        return (0.0 if min(goods.values()) <= 0 else len(goods) / sum(1 / good for good in goods.values()),)
    weights = objective.weighting
    return (sum(weights[name] * good for name, good in goods.items()) / sum(weights.values()),)


def _goodness(name: str, percent: float) -> float:
    share = percent / 100.0
    if lower_is_better(name):
        return max(0.0, 1.0 - share)
    return (
        0.0 if share < 0 else share
    )  # a metric from outside may be negative; only barred tickets have negative values


def reachable(objective: Objective, metrics: Mapping[str, float], dense: Outcome | None) -> tuple[float, ...]:
    """Return the best values that a ticket can still reach, given its known metrics and bounds of the others.

    The bound is exact, because no objective falls when an accuracy rises (`falling` names the exceptions, which are
    refused together with an early exit). Metrics that are not measured yet count with their best possible value.
    """
    best = {name: 0.0 if lower_is_better(name) else 100.0 for name in objective.terms} | dict(metrics)
    return weigh(objective, best, None if dense is None else dense.metrics()).values


def falling(objective: Objective) -> tuple[str, ...]:
    """Return the constraints for which no early exit is exact.

    They bound a metric against its direction, such as `aua <= 90`, and the metric is not final before the first attack.
    """
    return tuple(each.text for each in objective.constraints if _against_direction(each))


def _against_direction(constraint: Constraint) -> bool:
    row = find(constraint.metric)
    if row is not None and row.before_attack and row.names(constraint.metric):
        return False
    return (constraint.at_least is not None) == lower_is_better(constraint.metric)


def beats(incumbent: Sequence[float], values: Sequence[float]) -> bool:
    """Whether the incumbent is at least as good in every value and better in one."""
    pairs = list(zip(incumbent, values, strict=True))
    return all(best >= value for best, value in pairs) and any(best > value for best, value in pairs)


def feasible(trials: list[TrialRecord]) -> list[TrialRecord]:
    """Return the finished trials that may win."""
    return [trial for trial in trials if trial.status == "complete" and trial.feasible and trial.values is not None]


def front(trials: list[TrialRecord]) -> list[TrialRecord]:
    """Return the feasible trials that no other dominates, by the vector of values or by clean accuracy and Aua."""
    candidates = feasible(trials)
    return [trial for trial in candidates if not any(_dominates(other, trial) for other in candidates)]


def ranked(trials: list[TrialRecord]) -> list[TrialRecord]:
    """Return the feasible trials, best first: by mean value, then fewer parameters, then the earlier trial."""
    return sorted(feasible(trials), key=_rank, reverse=True)


def _rank(trial: TrialRecord) -> tuple[float, float, int]:
    assert trial.values is not None
    value = sum(trial.values) / len(trial.values)
    return value, -trial.metrics.get("parameters", 0.0), -trial.number


def _dominates(one: TrialRecord, other: TrialRecord) -> bool:
    pairs = list(zip(_figures(one), _figures(other), strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _figures(trial: TrialRecord) -> tuple[float, ...]:
    assert trial.values is not None
    if len(trial.values) > 1:
        return trial.values
    return tuple(trial.metrics[name] for name in ("clean", "aua") if name in trial.metrics)
