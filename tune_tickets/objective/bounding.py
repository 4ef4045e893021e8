"""Whether a ticket can still win, known before all of its rows have been attacked."""

from collections.abc import Mapping, Sequence

from tune_tickets.config.objective import Objective
from tune_tickets.objective.judging import LOWER_IS_BETTER, weigh
from tune_tickets.records import Outcome


def reachable(objective: Objective, metrics: Mapping[str, float], dense: Outcome | None) -> tuple[float, ...]:
    """The best values left for a ticket, given what is known of it and the most each accuracy under attack can be.

    Exact, since no objective falls when an accuracy rises (what would is refused together with an early exit). What
    has not been measured yet is taken at its best.
    """
    best = {name: 0.0 if name in LOWER_IS_BETTER else 100.0 for name in objective.terms} | dict(metrics)
    return weigh(objective, best, None if dense is None else dense.metrics()).values


def falling(objective: Objective) -> tuple[str, ...]:
    """The constraints under which a rising accuracy under attack makes a ticket worse: no early exit is exact there."""
    bounded = [each for each in objective.constraints if each.at_most is not None]
    return tuple(each.text for each in bounded if not each.metric.startswith(("clean", "sparsity", "flops")))


def beats(incumbent: Sequence[float], values: Sequence[float]) -> bool:
    """Whether the incumbent is at least as good in every value and better in one."""
    pairs = list(zip(incumbent, values, strict=True))
    return all(best >= value for best, value in pairs) and any(best > value for best, value in pairs)
