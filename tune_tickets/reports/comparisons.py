"""Paired tests of the selected ticket, and the differences that the rows can show."""

from collections.abc import Iterator, Mapping, Sequence

from tune_tickets.results.records import (
    AttackFigures,
    Comparison,
    Detectable,
    OodComparison,
    OodFigures,
    Outcome,
    Summary,
)
from tune_tickets.results.statistics import detectable, detectable_paired, mcnemar

ALPHA = 0.05
SUITE = "suite"
"""What comparisons call all threat models of a suite together."""
# The ticket was chosen on these rows, so they flatter it. Only fresh rows can settle a claim.
CAVEAT = "These rows also steered the search: confirm the ticket on report rows before claiming more."


def comparisons(selected: Outcome, others: Mapping[str, Outcome]) -> tuple[Comparison, ...]:
    """Run the exact McNemar test on `survived`, per other model, for equal threat models and rows.

    Suites are compared as a whole: a row counts if it withstands all their threat models.
    """
    return tuple(
        comparison for name, other in others.items() for comparison in compared_outcomes(name, selected, other)
    )


def compared_outcomes(name: str, ours: Outcome, theirs: Outcome) -> tuple[Comparison, ...]:
    """Like `comparisons`, for one other model called `name`."""
    one, other = ours.suite, theirs.suite
    if one is None or other is None:
        return paired(name, ours.attacks, theirs.attacks)
    if (one.fingerprints, one.sample, one.rows) != (other.fingerprints, other.sample, other.rows):
        return ()
    return (_compare(name, SUITE, one.accuracy - other.accuracy, one.survived, other.survived),)


def paired(name: str, ours: Sequence[AttackFigures], theirs: Sequence[AttackFigures]) -> tuple[Comparison, ...]:
    """Run the test for each pair of attacks with the same threat model on the same rows, none of them in a suite."""
    return tuple(
        _compare(
            name,
            one.threat,
            one.accuracy_under_attack - other.accuracy_under_attack,
            one.survived,
            other.survived,
        )
        for one in ours
        for other in theirs
        if one.after is None and other.after is None
        if (one.fingerprint, one.sample, len(one.survived)) == (other.fingerprint, other.sample, len(other.survived))
    )


def _compare(name: str, threat: str, difference: float, ours: Sequence[bool], theirs: Sequence[bool]) -> Comparison:
    p_value = mcnemar(ours, theirs)
    return Comparison(
        other=name,
        threat=threat,
        difference=difference,
        p_value=p_value,
        distinguishable=p_value < ALPHA,
    )


def verdict(found: tuple[Comparison, ...]) -> str:
    """Return one sentence per comparison, then the caveat."""
    if not found:
        return "There is no other model under the same threat model to compare the selected ticket with."
    return "\n".join([*(sentence(comparison) for comparison in found), CAVEAT])


def sentence(comparison: Comparison, subject: str = "the selected ticket") -> str:
    """Return a comparison in words."""
    points = f"{abs(comparison.difference):.1f} points"
    test = f"{comparison.difference:+.1f} points, {p_text(comparison.p_value)}"
    if not comparison.distinguishable:
        return f"{comparison.threat}: {subject} cannot be told from {comparison.other} ({test})."
    more = "more" if comparison.difference > 0 else "less"
    return (
        f"{comparison.threat}: {subject} keeps {points} {more} accuracy under attack than "
        f"{comparison.other} ({p_text(comparison.p_value)})."
    )


def p_text(p_value: float) -> str:
    """A p-value as sentences show it."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


_METRIC = {"accuracy": "accuracy", "weighted_f1": "weighted F1"}
MARK = "uses_ood_information: OOD rows entered this search, so its OOD figures are no estimate for other shifts."


def ood_comparisons(selected: Outcome, others: Mapping[str, Outcome]) -> tuple[OodComparison, ...]:
    """Run the exact McNemar test per other model and twin, on the same rows."""
    return tuple(
        OodComparison(
            other=name,
            twin=ours.name,
            difference=ours.value - theirs.value,
            p_value=(p_value := mcnemar(ours.right, theirs.right)),
            distinguishable=p_value < ALPHA,
        )
        for name, other in others.items()
        for ours, theirs in _paired(selected, other)
    )


def detectable_differences(measured: Outcome, other: Outcome | None) -> tuple[Detectable, ...]:
    """Return the differences that the clean rows and the rows of each twin can show.

    Answers on clean rows are not stored, so the test for two independent samples is used: paired rows show smaller
    differences.
    """
    clean = measured.clean
    found = [Detectable(figure="clean", rows=clean.rows, points=detectable(clean.accuracy, clean.rows), paired=False)]
    pairs = {} if other is None else {ours.name: theirs for ours, theirs in _paired(measured, other)}
    for twin in measured.ood:
        accuracy = 100.0 * sum(twin.right) / twin.rows
        partner = pairs.get(twin.name)
        points = detectable_paired(twin.right, partner.right) if partner else detectable(accuracy, twin.rows)
        found.append(Detectable(figure=f"ood/{twin.name}", rows=twin.rows, points=points, paired=partner is not None))
    return tuple(found)


def ood_claims(summary: Summary) -> Iterator[tuple[OodComparison | None, str]]:
    """Yield what a reader must know about the OOD columns, each sentence with its comparison, if any."""
    if summary.uses_ood_information:
        yield None, MARK
    metrics = {twin.name: twin.metric for trial in summary.trials if trial.outcome for twin in trial.outcome.ood}
    for comparison in summary.selected.ood:
        yield comparison, _sentence(comparison, _METRIC[metrics[comparison.twin]])
    if summary.detectable:
        sizes = ", ".join(
            f"{one.figure} {one.points:.1f} points ({one.rows} rows{', paired' if one.paired else ''})"
            for one in summary.detectable
        )
        yield None, f"Differences of accuracy that these rows can show, with 80% power at the 5% level: {sizes}."


def _sentence(comparison: OodComparison, metric: str) -> str:
    test = f"{comparison.difference:+.1f} points of {metric}, McNemar p = {comparison.p_value:.3f}"
    verb = "differs from" if comparison.distinguishable else "cannot be told from"
    return f"ood/{comparison.twin}: the selected ticket {verb} {comparison.other} ({test})."


def _paired(one: Outcome, other: Outcome) -> Iterator[tuple[OodFigures, OodFigures]]:
    """Figures of the same twin on the same rows."""
    for ours in one.ood:
        for theirs in other.ood:
            if (ours.name, ours.sample, ours.rows) == (theirs.name, theirs.sample, theirs.rows):
                yield ours, theirs
