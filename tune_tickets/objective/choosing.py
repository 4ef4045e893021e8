"""Choosing among finished trials: the winner, and the front of those that no other beats."""

from tune_tickets.records import TrialRecord


def feasible(trials: list[TrialRecord]) -> list[TrialRecord]:
    """Finished trials that may win."""
    return [trial for trial in trials if trial.status == "complete" and trial.feasible and trial.values is not None]


def front(trials: list[TrialRecord]) -> list[TrialRecord]:
    """Feasible trials that no other beats in every value of a vector, or in clean accuracy and that under attack."""
    candidates = feasible(trials)
    return [trial for trial in candidates if not any(_dominates(other, trial) for other in candidates)]


def ranked(trials: list[TrialRecord]) -> list[TrialRecord]:
    """Feasible trials, best first. Vectors are ranked by their mean; ties go to the sparser, then the earlier trial."""
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
