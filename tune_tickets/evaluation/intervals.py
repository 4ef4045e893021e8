"""How sure a share is, and whether two models differ on the same rows."""

from collections.abc import Sequence

from scipy.stats import binomtest


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The 95% Wilson interval of a share, in percent; without observations, everything is possible."""
    if n == 0:
        return 0.0, 100.0
    interval = binomtest(successes, n).proportion_ci(confidence_level=0.95, method="wilson")
    return 100 * float(interval.low), 100 * float(interval.high)


def mcnemar(a: Sequence[bool], b: Sequence[bool]) -> float:
    """The exact two-sided p-value that two models are equally good, from the rows on which they differ."""
    if len(a) != len(b):
        raise ValueError(f"a paired test needs the same rows: {len(a)} and {len(b)} were given")
    only_a = sum(first and not second for first, second in zip(a, b, strict=True))
    only_b = sum(second and not first for first, second in zip(a, b, strict=True))
    if only_a + only_b == 0:
        return 1.0
    return float(binomtest(only_a, only_a + only_b, 0.5).pvalue)
