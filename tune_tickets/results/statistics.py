"""Confidence intervals, paired tests and the power of a comparison."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist, mean, stdev

from scipy.optimize import brentq
from scipy.special import bdtr, stdtr, stdtrit

ALPHA = 0.05
"""The level of every test."""
_Z = NormalDist().inv_cdf(0.975)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return the 95% Wilson interval of a share, in percent; (0, 100) without observations."""
    if n == 0:
        return 0.0, 100.0
    share, denominator = successes / n, 2 * (n + _Z**2)
    centre = (2 * n * share + _Z**2) / denominator
    half = _Z / denominator * math.sqrt(4 * n * share * (1 - share) + _Z**2)
    # At the ends the formula gives 0 and 1 only up to rounding.
    return 100 * (centre - half if successes > 0 else 0.0), 100 * (centre + half if successes < n else 1.0)


_ROUNDING = 1e-9
"""Percentages that differ by less are equal."""


def mcnemar(a: Sequence[bool], b: Sequence[bool]) -> float:
    """Return the exact two-sided p-value of McNemar's test that two models are equally good on the same rows."""
    if len(a) != len(b):
        raise ValueError(f"a paired test needs the same rows: {len(a)} and {len(b)} were given")
    only_a = sum(first and not second for first, second in zip(a, b, strict=True))
    only_b = sum(second and not first for first, second in zip(a, b, strict=True))
    if only_a + only_b == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values corrected for their number (Holm 1979), in the given order.

    The smallest is multiplied by their number m, the next one by m - 1, and so on. None gets smaller than the one
    before it, or larger than 1.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return tuple(corrected)


def p_text(p_value: float) -> str:
    """Return a p-value as sentences show it."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% t interval of a mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    margin = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / math.sqrt(len(values))
    return centre - margin, centre + margin


def paired_t(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a paired t-test; None for fewer than two pairs."""
    differences = [first - second for first, second in zip(a, b, strict=True)]
    if len(differences) < 2:
        return None
    spread = stdev(differences)
    if spread < _ROUNDING:
        # On a few rows, all seeds often differ by the same step. The t-test would call any such difference certain,
        # so use the sign test instead.
        return 1.0 if abs(differences[0]) < _ROUNDING else 2.0 ** (1 - len(differences))
    statistic = mean(differences) / (spread / math.sqrt(len(differences)))
    return 2 * float(stdtr(len(differences) - 1, -abs(statistic)))


_POWER = NormalDist().inv_cdf(0.80)


def detectable(accuracy: float, rows: int) -> float:
    """Return the difference to `accuracy` (in %) that two samples of `rows` rows each can show, in points.

    The other model is assumed to be nearer to 50%, where shares vary most.
    """
    share = min(accuracy, 100.0 - accuracy) / 100.0

    def surplus(difference: float) -> float:
        other = share + difference
        middle = (share + other) / 2
        by_chance = _quantile(ALPHA) * math.sqrt(2 * middle * (1 - middle))
        really = _POWER * math.sqrt(share * (1 - share) + other * (1 - other))
        return difference * math.sqrt(rows) - by_chance - really

    return _root(surplus, 1.0 - share)


def detectable_paired(ours: Sequence[bool], theirs: Sequence[bool], level: float = ALPHA) -> float:
    """Return the difference that paired rows can show, in points, given how often the models differ (McNemar)."""
    rows, share = len(ours), divided(ours, theirs)

    def surplus(difference: float) -> float:
        really = _POWER * math.sqrt(max(share - difference**2, 0.0))
        return difference * math.sqrt(rows) - _quantile(level) * math.sqrt(share) - really

    return _root(surplus, share)


def rows_to_show(ours: Sequence[bool], theirs: Sequence[bool], level: float = ALPHA) -> int | None:
    """Return how many paired rows show the observed difference with 80% power; None if there is no difference.

    The inverse of `detectable_paired`: the share of rows on which the models differ is taken as it was observed.
    """
    difference, share = abs(sum(ours) - sum(theirs)) / len(ours), divided(ours, theirs)
    if difference == 0:
        return None
    by_chance = _quantile(level) * math.sqrt(share)
    really = _POWER * math.sqrt(max(share - difference**2, 0.0))
    return math.ceil(((by_chance + really) / difference) ** 2)


def divided(ours: Sequence[bool], theirs: Sequence[bool]) -> float:
    """Return the share of rows on which two models differ; at least one row, so that a difference is possible."""
    return max(sum(one != other for one, other in zip(ours, theirs, strict=True)), 1) / len(ours)


def _quantile(level: float) -> float:
    return NormalDist().inv_cdf(1 - level / 2)


def _root(surplus: Callable[[float], float], most: float) -> float:
    """In points; `most` if there are too few rows for any possible difference."""
    return 100.0 * (most if surplus(most) <= 0 else float(brentq(surplus, 0.0, most)))
