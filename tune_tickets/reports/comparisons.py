"""Paired tests of the selected ticket, and the differences that the rows can show."""

from collections.abc import Iterator, Mapping, Sequence

from tune_tickets.results.records import (
    AttackFigures,
    Comparison,
    Detectable,
    OodComparison,
    OodFigures,
    Outcome,
    Selection,
    Summary,
)
from tune_tickets.results.statistics import ALPHA, detectable, detectable_paired, holm, mcnemar, p_text

SUITE = "suite"
"""What comparisons call all threat models of a suite together."""
# The ticket was found on these rows, so they flatter it. Only fresh rows can settle a claim.
CAVEAT = "These rows also steered the search: confirm the ticket on report rows before claiming more."


def comparisons(selected: Outcome, others: Mapping[str, Outcome]) -> tuple[Comparison, ...]:
    """Run the exact McNemar test on `survived`, per other model, for equal threat models and rows.

    Suites are compared as a whole: a row counts if it withstands all their threat models. The p-values are corrected
    for the number of tests (Holm).
    """
    found = [one for name, other in others.items() for one in compared_outcomes(name, selected, other)]
    corrected = holm([one.p_value for one in found])
    return tuple(
        one.model_copy(update={"corrected": p_value, "distinguishable": p_value < ALPHA})
        for one, p_value in zip(found, corrected, strict=True)
    )


def compared_outcomes(name: str, ours: Outcome, theirs: Outcome) -> tuple[Comparison, ...]:
    """Like `comparisons`, for one other model called `name` and without a correction."""
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
        rows=len(ours),
        distinguishable=p_value < ALPHA,
    )


NOTHING_TO_COMPARE = "There is no other model under the same threat model to compare {trial} with."


def compared(selection: Selection) -> str:
    """Return one sentence per comparison of the ticket, then the caveat."""
    subject = selection.trial or "the ticket"
    if not selection.comparisons:
        return NOTHING_TO_COMPARE.format(trial=subject)
    return "\n".join([*(sentence(comparison, subject) for comparison in selection.comparisons), CAVEAT])


def sentence(comparison: Comparison, subject: str) -> str:
    """Return a comparison in words: who is above or below whom, by how much, and whether the rows can settle it."""
    p_value = comparison.p_value if comparison.corrected is None else comparison.corrected
    rows = "these rows" if comparison.rows is None else f"{comparison.rows} rows"
    settled, other = comparison.distinguishable, comparison.other
    return f"{comparison.threat}: {difference_text(comparison.difference, subject, other, p_value, rows, settled)}"


def difference_text(difference: float, subject: str, other: str, p_value: float, rows: str, settled: bool) -> str:
    """Return a difference in words, such as 't1 is 15.6 points below dense (p = 0.062: 32 rows cannot settle ...)'."""
    if abs(difference) < 0.05:
        return f"{subject} is level with {other} ({p_text(p_value)}, {rows})."
    where = "above" if difference > 0 else "below"
    doubt = "" if settled else f": {rows} cannot settle a difference of this size"
    return f"{subject} is {abs(difference):.1f} points {where} {other} ({p_text(p_value)}{doubt})."


_METRIC = {"accuracy": "accuracy", "weighted_f1": "weighted F1"}
MARK = "uses_ood_information: OOD rows entered this search, so its OOD figures are no estimate for other shifts."


def ood_comparisons(selected: Outcome, others: Mapping[str, Outcome]) -> tuple[OodComparison, ...]:
    """Run the exact McNemar test per other model and twin, on the same rows, corrected for the number of tests."""
    found = [(name, *pair) for name, other in others.items() for pair in _paired(selected, other)]
    p_values = [mcnemar(ours.right, theirs.right) for _, ours, theirs in found]
    return tuple(
        OodComparison(
            other=name,
            twin=ours.name,
            difference=ours.value - theirs.value,
            p_value=p_value,
            corrected=corrected,
            distinguishable=corrected < ALPHA,
        )
        for (name, ours, theirs), p_value, corrected in zip(found, p_values, holm(p_values), strict=True)
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
    subject = summary.selected.trial or "the ticket"
    for comparison in summary.selected.ood:
        yield comparison, _sentence(comparison, _METRIC[metrics[comparison.twin]], subject)
    if summary.detectable:
        sizes = ", ".join(
            f"{one.figure} {one.points:.1f} points ({one.rows} rows{', paired' if one.paired else ''})"
            for one in summary.detectable
        )
        yield None, f"Differences of accuracy that these rows can show, with 80% power at the 5% level: {sizes}."


def _sentence(comparison: OodComparison, metric: str, subject: str) -> str:
    settled = comparison.distinguishable
    p_value = comparison.p_value if comparison.corrected is None else comparison.corrected
    said = difference_text(comparison.difference, subject, comparison.other, p_value, "these rows", settled)
    return f"ood/{comparison.twin} ({metric}): {said}"


def _paired(one: Outcome, other: Outcome) -> Iterator[tuple[OodFigures, OodFigures]]:
    """Figures of the same twin on the same rows."""
    for ours in one.ood:
        for theirs in other.ood:
            if (ours.name, ours.sample, ours.rows) == (theirs.name, theirs.sample, theirs.rows):
                yield ours, theirs
