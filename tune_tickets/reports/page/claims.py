"""Claims about the selected ticket, and the details of each trial and control."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tune_tickets.reports.comparisons import CAVEAT, NOTHING_TO_COMPARE, ood_claims, sentence
from tune_tickets.reports.confirmed import improves
from tune_tickets.reports.confirmed import sentence as seed_sentence
from tune_tickets.reports.page.figures import anchor
from tune_tickets.reports.page.source import Source
from tune_tickets.reports.side_by_side import plain
from tune_tickets.results.metrics import table
from tune_tickets.results.records import Confirmation, ControlRecord, Cost, Outcome, StageRecord, Summary, TrialRecord
from tune_tickets.results.statistics import ALPHA

Worth = Literal["better", "worse", "unknown", "note"]


@dataclass(frozen=True)
class Claim:
    """A sentence and its verdict; `unknown` if the rows or seeds cannot show a difference."""

    worth: Worth
    text: str


def claims(summary: Summary) -> Iterator[Claim]:
    """Compare the selected ticket with the controls and the next best trial, on select rows."""
    subject = summary.selected.trial or "the ticket"
    for found in summary.selected.comparisons:
        yield Claim(_worth(found.distinguishable, found.difference), sentence(found, subject))
    for twin, text in ood_claims(summary):
        yield Claim(_worth(twin.distinguishable, twin.difference) if twin else "note", text)
    if summary.selected.comparisons:
        yield Claim("note", CAVEAT)
    elif summary.selected.trial is not None:
        yield Claim("note", NOTHING_TO_COMPARE.format(trial=subject))


def confirmed_claims(found: Confirmation, selected: str | None) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """Compare with the controls on report rows: claims about the selected ticket as a whole, then all others."""
    main: list[Claim] = []
    further: list[Claim] = []
    for test in found.tests:
        known = test.p_value is not None and test.p_value < ALPHA
        claim = Claim(_worth(known, 1.0 if improves(test) else -1.0), seed_sentence(test))
        whole = not (test.metric.startswith("ood/") and test.metric.count("/") > 1)
        (main if whole and test.ticket == (selected or test.ticket) else further).append(claim)
    return tuple(main), tuple(further)


def not_confirmed(source: Source) -> str:
    """Warn that the results are not confirmed; empty if the chosen ticket was confirmed."""
    selected, found = source.summary.selected.trial, source.confirmation
    command = f"tune-tickets confirm {source.finished.folder.name}"
    if selected is None:
        return ""
    if found is None:
        return (
            "Not confirmed. These rows also steered the search, so they flatter its choice. To measure with fresh "
            f"seeds on rows that no choice was based on: {command}"
        )
    if found.config_digest != source.summary.config_digest:
        return f"The confirmation belongs to another configuration of this experiment: run {command} again."
    if selected not in found.tickets:
        return f"{selected}, the ticket of the first rank, is not among the confirmed tickets: run {command}"
    return ""


def _worth(known: bool, difference: float) -> Worth:
    if not known:
        return "unknown"
    return "better" if difference > 0 else "worse"


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Detail:
    """One trial or control; `said` are objections, notes and errors."""

    anchor: str
    name: str
    method: str
    status: str
    headline: str
    said: tuple[str, ...]
    settings: Pairs
    figures: Pairs
    stages: tuple[tuple[str, str, str], ...]
    cost: str


def details(summary: Summary) -> list[Detail]:
    """Return all trials in order, then the controls."""
    return [*(_trial(trial, summary) for trial in summary.trials), *map(_control, summary.controls)]


def headline(metrics: Mapping[str, float]) -> str:
    """Return the main metrics on one line."""
    rows = [row for row in table() if row.said and row.name in metrics]
    return ", ".join(f"{row.said} {metrics[row.name]:.{row.digits}f}{row.unit}" for row in rows)


def duration(seconds: float) -> str:
    """Show a duration: '41 s', '12 min', '3.5 h'."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _trial(trial: TrialRecord, summary: Summary) -> Detail:
    name = f"trial {trial.number}"
    return Detail(
        anchor=anchor(name),
        name=name,
        method=trial.title or trial.method,
        status=_status(trial, summary),
        headline=headline(trial.metrics),
        said=tuple(_said(trial)),
        settings=tuple((key, plain(value)) for key, value in trial.params.items()),
        figures=_figures(trial.metrics, trial.values),
        stages=_stages(trial.stages),
        cost=_cost(trial.cost, trial.seconds),
    )


def _control(control: ControlRecord) -> Detail:
    metrics = control.outcome.metrics()
    return Detail(
        anchor=anchor(control.name),
        name=control.name,
        method=control.title or control.kind,
        status="control",
        headline=headline(metrics),
        said=_objections(control.outcome),
        settings=(("seed", str(control.seed)), *((("like", control.like),) if control.like else ())),
        figures=_figures(metrics, None),
        stages=_stages(control.stages),
        cost=_cost(control.cost, None),
    )


def _status(trial: TrialRecord, summary: Summary) -> str:
    if trial.id == summary.selected.winner:
        return "selected"
    if trial.feasible is False:
        return "ruled out"
    return "on the front" if trial.id in summary.front else trial.status


def _said(trial: TrialRecord) -> Iterator[str]:
    if trial.outcome is not None:
        yield from _objections(trial.outcome)
    if trial.uses_ood_information:
        yield "OOD rows entered its training or its value"
    if trial.bound is not None:
        yield f"stopped during the attack: it could have reached at most {plain(trial.bound)}"
    if trial.error is not None:
        yield from (line for line in trial.error.splitlines() if line.strip())


def _objections(outcome: Outcome) -> tuple[str, ...]:
    return (*outcome.flags, *outcome.notes)


def _figures(metrics: Mapping[str, float], values: Sequence[float] | None) -> Pairs:
    """Every metric, with its interval if it has one."""
    found = [("objective", ", ".join(f"{value:z.4f}" for value in values))] if values else []
    for name, value in metrics.items():
        low, high = metrics.get(f"low/{name}"), metrics.get(f"high/{name}")
        interval = "" if low is None or high is None else f" [{low:.1f}-{high:.1f}]"
        if not name.startswith(("low/", "high/")):
            found.append((name, (f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}") + interval))
    return tuple(found)


def _stages(stages: Sequence[StageRecord]) -> tuple[tuple[str, str, str], ...]:
    return tuple((stage.name, duration(stage.seconds), "shared" if stage.cached else "computed") for stage in stages)


def _cost(cost: Cost | None, seconds: float | None) -> str:
    parts = []
    if cost is not None:
        own, found = cost.retraining, cost.search
        parts.append(f"training {own.passes:g} passes, {duration(own.seconds)}")
        if found.passes:
            parts.append(f"search for the ticket {found.passes:g} passes, {duration(found.seconds)}")
    if seconds:
        parts.append(f"{duration(seconds)} from start to end")
    return "; ".join(parts)
