"""How large a difference between two models must be for so many rows to show it: 80% power in a two-sided 5% test."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from scipy.optimize import brentq

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
