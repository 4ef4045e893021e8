"""How sure a share of rows is. Apart from other statistics, as every trial's process needs it and none needs scipy."""

import math
from statistics import NormalDist

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
