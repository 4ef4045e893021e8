"""The table of a confirmation, and what its tests say in words."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tune_tickets.confirmation import Confirmation, ConfirmedModel, Estimate, SeedTest
from tune_tickets.reporting.layout import say

ALPHA = 0.05
ABSENT = "-"


def print_confirmation(found: Confirmation, console: Console) -> None:
    """Models in rows, means with 95% intervals over seeds in columns; then a sentence per test."""
    console.print(_table(found))
    say(console, meaning(found), style="dim")
    for line in failures(found):
        say(console, line)
    for test in found.tests:
        say(console, sentence(test))


def meaning(found: Confirmation) -> str:
    """What the figures are."""
    return (
        f"Means over seeds with 95% t intervals, on {found.rows} report rows ({found.attacked_rows} attacked) that "
        "nothing was chosen by. Tests are paired over seeds, two-sided and not corrected for their number."
    )


def failures(found: Confirmation) -> Iterator[str]:
    """Seeds without figures, and why."""
    for model in found.models:
        for run in model.runs:
            if run.error is not None:
                yield f"{model.name}, seed {run.seed} failed: {run.error}"


def cells(found: Confirmation) -> list[list[str]]:
    """A header, then a line per model: name, method, seeds, and the mean of every metric with its interval."""
    metrics = list(dict.fromkeys(name for model in found.models for name in model.estimates))
    header = ["model", "method", "seeds", *(f"{metric} %" for metric in metrics)]
    figures = [[_estimate(model.estimates.get(metric)) for metric in metrics] for model in found.models]
    return [
        header,
        *([model.name, model.title, _seeds(model), *row] for model, row in zip(found.models, figures, strict=True)),
    ]


def sentence(test: SeedTest) -> str:
    """What a test says."""
    if test.p_value is None:
        return f"{test.metric}: {test.seeds} seeds in common are too few to compare {test.ticket} with {test.other}."
    shown = f"{test.difference:+.1f} points, {_p_value(test.p_value)}, {test.seeds} seeds"
    if test.p_value >= ALPHA:
        return f"{test.metric}: {test.ticket} cannot be told from {test.other} ({shown})."
    return (
        f"{test.metric}: {test.ticket} is {'better' if test.difference > 0 else 'worse'} than {test.other} ({shown})."
    )


def _table(found: Confirmation) -> Table:
    header, *lines = cells(found)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(header):
        # Folded, for cut off the names of two threat models may look the same.
        table.add_column(Text(name), justify="left" if index < 2 else "right", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    return table


def _seeds(model: ConfirmedModel) -> str:
    asked = len(model.runs)
    return f"{asked}" if not model.failed else f"{asked - model.failed} of {asked}"


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return ABSENT
    if found.interval is None:
        return f"{found.mean:.1f}"
    return f"{found.mean:.1f} [{found.interval[0]:.1f}, {found.interval[1]:.1f}]"


def _p_value(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
