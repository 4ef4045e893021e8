"""When a training has stopped to improve."""

from collections.abc import Iterable


def out_of_patience(looks: Iterable[float], patience: int, improvement: float) -> bool:
    """Whether the last `patience` looks were none of them more than `improvement` above the best before them."""
    best, in_vain = float("-inf"), 0
    for look in looks:
        if look - best > improvement:
            best, in_vain = look, 0
        else:
            in_vain += 1
    return in_vain >= patience
