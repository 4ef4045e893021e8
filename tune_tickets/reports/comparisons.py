"""What can be said of OOD figures: paired tests of the selected ticket, and what differences the rows can show."""

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


_METRIC = {"accuracy": "accuracy", "weighted_f1": "weighted F1"}
MARK = "uses_ood_information: OOD rows entered this search, so its OOD figures are no estimate for other shifts."


def ood_comparisons(selected: Outcome, others: Mapping[str, Outcome]) -> tuple[OodComparison, ...]:
    """The exact McNemar test per other model and twin, on the same rows."""
    return tuple(
        OodComparison(
            other=name,
            twin=ours.name,
            difference=ours.value - theirs.value,
            p_value=(p_value := mcnemar(ours.right, theirs.right)),
            distinguishable=p_value < 0.05,
        )
        for name, other in others.items()
        for ours, theirs in _paired(selected, other)
    )


def detectable_differences(measured: Outcome, other: Outcome | None) -> tuple[Detectable, ...]:
    """What the rows behind clean accuracy and behind each twin could have shown.

    Clean rows are not kept one by one, so two models are taken to have rows of their own: on shared rows less suffices.
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


def ood_sentences(summary: Summary) -> Iterator[str]:
    """What a reader of the table must know of its OOD figures."""
    return (text for _, text in ood_claims(summary))


def ood_claims(summary: Summary) -> Iterator[tuple[OodComparison | None, str]]:
    """The same sentences, each with the comparison it tells of."""
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
