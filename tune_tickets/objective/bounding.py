"""Whether a ticket can still win, known before all of its rows have been attacked."""

from collections.abc import Sequence

from tune_tickets.config.objective import Objective
from tune_tickets.objective.judging import weigh
from tune_tickets.records import CleanFigures, Outcome


def reachable(
    objective: Objective, clean: CleanFigures, aua: Sequence[float], dense: Outcome | None
) -> tuple[float, ...]:
    """The best values that are left for a ticket whose accuracy under each attack is at most `aua`.

    Exact, since no objective falls when accuracy under attack rises.
    """
    return weigh(objective, clean, aua, dense).values


def beats(incumbent: Sequence[float], values: Sequence[float]) -> bool:
    """Whether the incumbent is at least as good in every value and better in one."""
    pairs = list(zip(incumbent, values, strict=True))
    return all(best >= value for best, value in pairs) and any(best > value for best, value in pairs)
