"""The findings of the verb `attack` on the terminal."""

from rich.console import Console

from tune_tickets.attacks.records import AttackRecord, AttackReport, Measured, Piece, pieces
from tune_tickets.data.sample import Sample
from tune_tickets.reports.attacked import print_comparisons, print_figures, print_substitutions, print_texts, say


def print_report(report: AttackReport, finished: list[Measured], show: int, console: Console) -> None:
    """Attacked texts, the sample to judge, then the figures, where the eye ends up."""
    for attacked in finished:
        shown = [_shown(record, attacked.sample) for record in _worth_showing(attacked, show)]
        if shown:
            print_texts(shown, f"{attacked.measurement.figures.threat} on {attacked.measurement.model}", console)
    for attacked in finished:
        print_substitutions(attacked.measurement, console)
    if report.measurements:
        print_figures(report.measurements, console)
    if report.comparisons:
        print_comparisons(report.comparisons, console)
    if report.unfinished:
        console.print()
        say(console, "Interrupted. Incomplete, so no figure is given:", style="bold red")
        for line in report.unfinished:
            say(console, f"  {line}")


def _worth_showing(attacked: Measured, count: int) -> list[AttackRecord]:
    """Attacks that worked first, then those that did not, each in the order of the rows."""
    tried = [record for record in attacked.records if record.status != "skipped"]
    return sorted(tried, key=lambda record: record.status != "successful")[:count]


def _shown(record: AttackRecord, sample: Sample) -> tuple[str, list[tuple[str, list[Piece]]]]:
    labels = sample.labels
    answer = f"{labels[record.prediction]} -> {labels[record.perturbed_prediction]}"
    similarity = "" if record.similarity is None else f", similarity {record.similarity:.2f}"
    heading = (
        f"row {record.index}: {record.status}, {answer}, {record.queries} queries, "
        f"{record.words_changed:.1f}% of the words changed{similarity}"
    )
    sides = zip(sample.columns, record.texts, record.perturbed_texts, strict=True)
    return heading, [(column, pieces(before, after)) for column, before, after in sides]
