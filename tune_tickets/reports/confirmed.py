"""Confirmed tickets: means and intervals over seeds, and paired tests against the controls of the same seeds."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tune_tickets.reports.attacked import say
from tune_tickets.reports.comparisons import difference_text
from tune_tickets.reports.table import ABSENT
from tune_tickets.results.metrics import find, is_confirmed, lower_is_better
from tune_tickets.results.records import Confirmation, ConfirmedModel, Estimate, SeedRun, SeedTest
from tune_tickets.results.statistics import ALPHA, p_text, paired_t, t_interval


def print_confirmation(found: Confirmation, console: Console) -> None:
    """Print models in rows and means with 95% intervals over seeds in columns, then a sentence per test."""
    console.print(_table(found))
    say(console, meaning(found), style="dim")
    for line in failures(found):
        say(console, line)
    for test in found.tests:
        say(console, sentence(test))


def meaning(found: Confirmation) -> str:
    """Explain the table."""
    return (
        f"Means over seeds with 95% t intervals, on {found.rows} report rows ({found.attacked_rows} attacked), "
        "which no choice was based on. Tests are paired over seeds, two-sided and not corrected for their number."
    )


def failures(found: Confirmation) -> Iterator[str]:
    """Yield the seeds that failed, and why."""
    for model in found.models:
        for run in model.runs:
            if run.error is not None:
                yield f"{model.name}, seed {run.seed} failed: {run.error}"


def cells(found: Confirmation) -> list[list[str]]:
    """Return a header and a line per model: name, method, seeds, and the mean of every metric with its interval."""
    metrics = list(dict.fromkeys(name for model in found.models for name in model.estimates))
    header = ["model", "method", "seeds", *map(_header, metrics)]
    figures = [[_estimate(model.estimates.get(metric)) for metric in metrics] for model in found.models]
    return [
        header,
        *([model.name, model.title, _seeds(model), *row] for model, row in zip(found.models, figures, strict=True)),
    ]


def sentence(test: SeedTest) -> str:
    """Return a test in words."""
    if test.p_value is None:
        return f"{test.metric}: {test.seeds} seeds in common are too few to compare {test.ticket} with {test.other}."
    shown = f"{test.difference:+.1f} points, {p_text(test.p_value)}, {test.seeds} seeds"
    if test.p_value >= ALPHA:
        seeds = f"{test.seeds} seeds"
        said = difference_text(test.difference, test.ticket, test.other, test.p_value, seeds, settled=False)
        return f"{test.metric}: {said}"
    return f"{test.metric}: {test.ticket} is {'better' if improves(test) else 'worse'} than {test.other} ({shown})."


def improves(test: SeedTest) -> bool:
    """Whether the difference is in the ticket's favour, by the direction of the metric."""
    return test.difference < 0 if lower_is_better(test.metric) else test.difference > 0


def _table(found: Confirmation) -> Table:
    header, *lines = cells(found)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(header):
        # Folded: if cut, the names of two threat models may look the same.
        table.add_column(Text(name), justify="left" if index < 2 else "right", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    return table


def _header(metric: str) -> str:
    row = find(metric)
    return f"{metric} {'%' if row is None else row.unit}".strip()


def _seeds(model: ConfirmedModel) -> str:
    asked = len(model.runs)
    return f"{asked}" if not model.failed else f"{asked - model.failed} of {asked}"


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return ABSENT
    if found.interval is None:
        return f"{found.mean:.1f}"
    return f"{found.mean:.1f} [{found.interval[0]:.1f}, {found.interval[1]:.1f}]"


def estimates(runs: Sequence[SeedRun]) -> dict[str, Estimate]:
    """Estimate each metric over the measured seeds."""
    done = [run for run in runs if run.status == "complete"]
    names = dict.fromkeys(name for run in done for name in run.metrics if is_confirmed(name))
    return {name: _confirmed_estimate([run.metrics[name] for run in done if name in run.metrics]) for name in names}


def tests(models: Sequence[ConfirmedModel]) -> tuple[SeedTest, ...]:
    """Test every ticket against the dense control and against random tickets like it, per metric."""
    return tuple(
        _test(ticket, other, metric)
        for ticket in models
        if ticket.kind == "ticket"
        for other in models
        if other.kind == "dense" or (other.kind == "random" and other.trial == ticket.trial)
        for metric in ticket.estimates
        if metric in other.estimates
    )


def _confirmed_estimate(values: Sequence[float]) -> Estimate:
    return Estimate(mean=mean(values), interval=t_interval(values), seeds=len(values))


def _test(ticket: ConfirmedModel, other: ConfirmedModel, metric: str) -> SeedTest:
    ours, theirs = _by_seed(ticket, metric), _by_seed(other, metric)
    both = [seed for seed in ours if seed in theirs]
    pairs = [(ours[seed], theirs[seed]) for seed in both]
    differences = [one - two for one, two in pairs]
    return SeedTest(
        ticket=ticket.name,
        other=other.name,
        metric=metric,
        difference=mean(differences) if differences else 0.0,
        interval=t_interval(differences),
        p_value=paired_t([one for one, _ in pairs], [two for _, two in pairs]),
        seeds=len(both),
    )


def _by_seed(model: ConfirmedModel, metric: str) -> Mapping[int, float]:
    return {run.seed: run.metrics[metric] for run in model.runs if metric in run.metrics}
