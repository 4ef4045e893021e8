"""Confidence intervals, paired tests and the power of a comparison."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist, mean, stdev

from scipy.optimize import brentq
from scipy.special import bdtr, stdtr, stdtrit

_Z = NormalDist().inv_cdf(0.975)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The 95% Wilson interval of a share, in percent; without observations, everything is possible."""
    if n == 0:
        return 0.0, 100.0
    share, denominator = successes / n, 2 * (n + _Z**2)
    centre = (2 * n * share + _Z**2) / denominator
    half = _Z / denominator * math.sqrt(4 * n * share * (1 - share) + _Z**2)
    # At the ends the formula gives 0 and 1 up to its last digit.
    return 100 * (centre - half if successes > 0 else 0.0), 100 * (centre + half if successes < n else 1.0)


_ROUNDING = 1e-9
"""Percentages that are equal differ by less."""


def mcnemar(a: Sequence[bool], b: Sequence[bool]) -> float:
    """The exact two-sided p-value that two models are equally good, from the rows on which they differ."""
    if len(a) != len(b):
        raise ValueError(f"a paired test needs the same rows: {len(a)} and {len(b)} were given")
    only_a = sum(first and not second for first, second in zip(a, b, strict=True))
    only_b = sum(second and not first for first, second in zip(a, b, strict=True))
    if only_a + only_b == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95% t interval of a mean; None if there are fewer than two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    margin = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / math.sqrt(len(values))
    return centre - margin, centre + margin


def paired_t(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The two-sided p-value that the mean difference of pairs is 0; None if there are fewer than two pairs."""
    differences = [first - second for first, second in zip(a, b, strict=True)]
    if len(differences) < 2:
        return None
    spread = stdev(differences)
    if spread < _ROUNDING:
        # Accuracies on a few rows often differ by the same step for all seeds. The test would be sure of any such
        # difference; that all have the same sign is what can be said of it.
        return 1.0 if abs(differences[0]) < _ROUNDING else 2.0 ** (1 - len(differences))
    statistic = mean(differences) / (spread / math.sqrt(len(differences)))
    return 2 * float(stdtr(len(differences) - 1, -abs(statistic)))


_LEVEL = NormalDist().inv_cdf(1 - 0.05 / 2)
_POWER = NormalDist().inv_cdf(0.80)


def detectable(accuracy: float, rows: int) -> float:
    """Points between `accuracy` (in %) and that of another model, each on `rows` rows of its own.

    The other model is taken to be nearer to 50%, where shares vary most: differences the other way show earlier.
    """
    share = min(accuracy, 100.0 - accuracy) / 100.0

    def surplus(difference: float) -> float:
        other = share + difference
        middle = (share + other) / 2
        by_chance = _LEVEL * math.sqrt(2 * middle * (1 - middle))
        really = _POWER * math.sqrt(share * (1 - share) + other * (1 - other))
        return difference * math.sqrt(rows) - by_chance - really

    return _root(surplus, 1.0 - share)


def detectable_paired(ours: Sequence[bool], theirs: Sequence[bool]) -> float:
    """Points between two models on the same rows, of which as large a share divides them as was seen (McNemar)."""
    rows = len(ours)
    # A row that divides them is possible even where none was seen; without one there would be nothing to detect.
    divided = max(sum(one != other for one, other in zip(ours, theirs, strict=True)), 1) / rows

    def surplus(difference: float) -> float:
        really = _POWER * math.sqrt(max(divided - difference**2, 0.0))
        return difference * math.sqrt(rows) - _LEVEL * math.sqrt(divided) - really

    return _root(surplus, divided)


def _root(surplus: Callable[[float], float], most: float) -> float:
    """In points; `most` if the rows are too few for any difference that is possible."""
    return 100.0 * (most if surplus(most) <= 0 else float(brentq(surplus, 0.0, most)))
