"""Whether the selected ticket can be told from other models: paired tests on the same attacked rows, in plain words."""

from collections.abc import Mapping, Sequence

from tune_tickets.evaluation.intervals import mcnemar
from tune_tickets.records import AttackFigures, Comparison, Outcome

# The rows that chose the ticket flatter it; only fresh rows can settle a claim.
CAVEAT = "These rows also steered the search: confirm the ticket on report rows before claiming more."


def comparisons(selected: Outcome, others: Mapping[str, Outcome], alpha: float = 0.05) -> tuple[Comparison, ...]:
    """The exact McNemar test on `survived`, per other model and threat; only for the same threat model and rows."""
    return tuple(
        comparison
        for name, other in others.items()
        for comparison in paired(name, selected.attacks, other.attacks, alpha)
    )


def paired(
    name: str, ours: Sequence[AttackFigures], theirs: Sequence[AttackFigures], alpha: float = 0.05
) -> tuple[Comparison, ...]:
    """The same for two models, given the figures of each; `name` is the other's."""
    return tuple(
        _compare(name, one, other, alpha)
        for one in ours
        for other in theirs
        if (one.fingerprint, one.sample, len(one.survived)) == (other.fingerprint, other.sample, len(other.survived))
    )


def _compare(name: str, ours: AttackFigures, theirs: AttackFigures, alpha: float) -> Comparison:
    p_value = mcnemar(ours.survived, theirs.survived)
    return Comparison(
        other=name,
        threat=ours.threat,
        difference=ours.accuracy_under_attack - theirs.accuracy_under_attack,
        p_value=p_value,
        distinguishable=p_value < alpha,
    )


def verdict(found: tuple[Comparison, ...]) -> str:
    """One sentence per comparison, and what they are worth."""
    if not found:
        return "There is no other model under the same threat model to compare the selected ticket with."
    return "\n".join([*(sentence(comparison) for comparison in found), CAVEAT])


def sentence(comparison: Comparison, subject: str = "the selected ticket") -> str:
    """What the comparison says, in words."""
    points = f"{abs(comparison.difference):.1f} points"
    test = f"{comparison.difference:+.1f} points, {_p_value(comparison.p_value)}"
    if not comparison.distinguishable:
        return f"{comparison.threat}: {subject} cannot be told from {comparison.other} ({test})."
    more = "more" if comparison.difference > 0 else "less"
    return (
        f"{comparison.threat}: {subject} keeps {points} {more} accuracy under attack than "
        f"{comparison.other} ({_p_value(comparison.p_value)})."
    )


def _p_value(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
