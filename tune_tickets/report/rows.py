"""What the closing table shows: one row per measured model, columns in groups that stay together. Plain text cells."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tune_tickets.records import AttackFigures, ControlRecord, Outcome, Summary, TrialRecord

SELECTED, FRONT, BARRED = "*", "+", "x"
ABSENT = "-"


@dataclass(frozen=True)
class Row:
    """One measured model; `mark` says what became of it, `objections` why."""

    name: str
    outcome: Outcome
    values: tuple[float, ...] = ()
    mark: str = " "
    objections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A header of two lines, and the text of a row's cell."""

    header: tuple[str, str]
    cell: Callable[[Row], str]


Group = tuple[Column, ...]


def control_name(control: ControlRecord) -> str:
    """The name of a control in tables and comparisons: 'dense' or 'random-0'."""
    return "dense" if control.kind == "dense" else f"{control.kind}-{control.seed}"


def rows(summary: Summary, top: int) -> list[Row]:
    """The `top` finished trials, the selected one first, then by objective; below them every control."""
    done = [trial for trial in summary.trials if trial.status == "complete" and trial.outcome is not None]
    done.sort(key=lambda trial: (trial.id != summary.selected.trial, -_mean(trial.values), trial.number))
    shown = [_trial_row(trial, trial.outcome, summary) for trial in done[:top] if trial.outcome is not None]
    controls = [
        Row(control_name(control), control.outcome, objections=control.outcome.flags) for control in summary.controls
    ]
    return shown + controls


def groups(shown: Iterable[Row], plus_minus: str) -> list[Group]:
    """The model's own columns, then one group per threat model."""
    shown = list(shown)
    own = (
        Column(("", "obj."), lambda row: ", ".join(f"{value:.3f}" for value in row.values) or ABSENT),
        Column(("", "Clean%"), lambda row: _clean(row.outcome, plus_minus)),
        Column(("cut%", "heads"), lambda row: f"{row.outcome.sparsity.heads:.1f}"),
        Column(("cut%", "neur."), lambda row: f"{row.outcome.sparsity.neurons:.1f}"),
        Column(("params", "M"), lambda row: f"{row.outcome.sparsity.parameters / 1e6:.2f}"),
    )
    # Figures of different fingerprints never share a column, even under one name.
    threats = {(figures.threat, figures.fingerprint): None for row in shown for figures in row.outcome.attacks}
    names = [threat for threat, _ in threats]
    return [own] + [
        _threat_group(threat, fingerprint, ambiguous=names.count(threat) > 1) for threat, fingerprint in threats
    ]


def _threat_group(threat: str, fingerprint: str, ambiguous: bool) -> Group:
    title = f"{threat} {fingerprint[:8]}" if ambiguous else threat

    def cell(show: Callable[[AttackFigures], str]) -> Callable[[Row], str]:
        def text(row: Row) -> str:
            found = [f for f in row.outcome.attacks if (f.threat, f.fingerprint) == (threat, fingerprint)]
            return show(found[0]) if found else ABSENT

        return text

    return (
        Column((title, "Aua% [95%]"), cell(_aua)),
        Column(("", "Suc%"), cell(lambda figures: f"{figures.success_rate:.1f}")),
        Column(("", "#Query"), cell(lambda figures: f"{figures.queries:.1f}")),
    )


def _trial_row(trial: TrialRecord, outcome: Outcome, summary: Summary) -> Row:
    name, values = f"trial {trial.number}", trial.values or ()
    if trial.feasible is False:
        return Row(name, outcome, values, BARRED, outcome.flags or ("it does not meet the objective's conditions",))
    if trial.id == summary.selected.trial:
        return Row(name, outcome, values, SELECTED, outcome.flags)
    return Row(name, outcome, values, FRONT if trial.id in summary.front else " ", outcome.flags)


def _clean(outcome: Outcome, plus_minus: str) -> str:
    low, high = outcome.clean.interval
    return f"{outcome.clean.accuracy:.1f} {plus_minus}{(high - low) / 2:.1f}"


def _aua(figures: AttackFigures) -> str:
    low, high = figures.interval
    return f"{figures.accuracy_under_attack:.1f} [{low:.1f}-{high:.1f}]"


def _mean(values: tuple[float, ...] | None) -> float:
    return sum(values) / len(values) if values else float("-inf")
