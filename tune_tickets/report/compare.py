"""Whether the selected ticket can be told from other models: paired tests on the same attacked rows, in plain words."""

from collections.abc import Mapping

from tune_tickets.evaluation.intervals import mcnemar
from tune_tickets.records import AttackFigures, Comparison, Outcome


def comparisons(selected: Outcome, others: Mapping[str, Outcome], alpha: float = 0.05) -> tuple[Comparison, ...]:
    """The exact McNemar test on `survived`, per other model and threat; only where both met the same threat model."""
    return tuple(
        _compare(name, ours, theirs, alpha)
        for name, other in others.items()
        for ours in selected.attacks
        for theirs in other.attacks
        if (ours.fingerprint, len(ours.survived)) == (theirs.fingerprint, len(theirs.survived))
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
    # The rows that chose the ticket flatter it; only fresh rows can settle a claim.
    caveat = "These rows also steered the search: confirm the ticket on report rows before claiming more."
    return "\n".join([*(_sentence(comparison) for comparison in found), caveat])


def _sentence(comparison: Comparison) -> str:
    points = f"{abs(comparison.difference):.1f} points"
    test = f"{comparison.difference:+.1f} points, {_p_value(comparison.p_value)}"
    if not comparison.distinguishable:
        return f"{comparison.threat}: the selected ticket cannot be told from {comparison.other} ({test})."
    more = "more" if comparison.difference > 0 else "less"
    return (
        f"{comparison.threat}: the selected ticket keeps {points} {more} accuracy under attack than "
        f"{comparison.other} ({_p_value(comparison.p_value)})."
    )


def _p_value(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
