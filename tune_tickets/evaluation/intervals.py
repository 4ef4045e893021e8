"""How sure a mean over seeds is, and whether two models differ on the same rows or seeds."""

import math
from collections.abc import Sequence
from statistics import mean, stdev

from scipy.special import bdtr, stdtr, stdtrit

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
