"""Gains out of distribution that were paid for with accuracy on the task itself."""

from tune_tickets.records import Outcome

LARGEST_DROP = 5.0
"""% of the dense control's clean accuracy. SRNets 4.2.2: a worse model can gain on an imbalanced twin by guessing."""


def doubtful_gains(outcome: Outcome, dense: Outcome | None) -> tuple[str, ...]:
    """A sentence per OOD twin on which a model beats the dense control while it falls behind it on the task."""
    if dense is None or outcome.clean.accuracy >= dense.clean.accuracy * (1 - LARGEST_DROP / 100.0):
        return ()
    drop = 100.0 * (1 - outcome.clean.accuracy / dense.clean.accuracy)
    control = {twin.name: twin.value for twin in dense.ood}
    return tuple(
        f"gains {twin.value - control[twin.name]:.1f} points on {twin.name}, but clean accuracy drops by {drop:.1f}% "
        f"of the dense control's (more than {LARGEST_DROP:g}%): no gain to count on"
        for twin in outcome.ood
        if twin.name in control and twin.value > control[twin.name]
    )
