"""What the closing table shows: one row per measured model, columns in groups that stay together. Plain text cells."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tune_tickets.config.title import ADVERSARIES
from tune_tickets.records import (
    AttackFigures,
    ControlRecord,
    Cost,
    CostBaseline,
    OodFigures,
    Outcome,
    Summary,
    TrialRecord,
)

SELECTED, FRONT, BARRED = "*", "+", "x"
ABSENT = "-"
OOD_METRICS = {"accuracy": "Acc%", "weighted_f1": "F1%"}


@dataclass(frozen=True)
class Row:
    """One measured model; `mark` says what became of it, `objections` why."""

    name: str
    method: str
    outcome: Outcome
    cost: Cost | None
    baselines: tuple[CostBaseline, ...]
    values: tuple[float, ...] = ()
    mark: str = " "
    objections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A header of two lines, and the text of a row's cell."""

    header: tuple[str, str]
    cell: Callable[[Row], str]
    words: bool = False
    """Read from the left; numbers stand at the right."""


Group = tuple[Column, ...]


def rows(summary: Summary, top: int) -> list[Row]:
    """The `top` finished trials and the best of every method, the selected one first; below them their controls."""
    done = [trial for trial in summary.trials if trial.status == "complete" and trial.outcome is not None]
    done.sort(key=lambda trial: (trial.id != summary.selected.trial, -_mean(trial.values), trial.number))
    shown = [_trial_row(trial, trial.outcome, summary) for trial in done if trial.outcome is not None]
    best_of = {row.method: row for row in reversed(shown)}
    kept = [row for index, row in enumerate(shown) if index < top or best_of[row.method] is row]
    names, numbers = {row.name for row in kept}, {trial.id: trial.number for trial in done}
    beside = [
        control for control in summary.controls if control.like is None or f"trial {numbers.get(control.like)}" in names
    ]
    return kept + [_control_row(control, summary) for control in beside]


def winner_and_controls(summary: Summary) -> list[Row]:
    """The selected trial, if there is one, and the controls that it is compared with."""
    found = [trial for trial in summary.trials if trial.id == summary.selected.trial]
    winner = [_trial_row(trial, trial.outcome, summary) for trial in found if trial.outcome is not None]
    return winner + [_control_row(control, summary) for control in summary.controls if control.like is None]


def groups(shown: Iterable[Row], plus_minus: str) -> list[Group]:
    """As in the papers' main tables: method and clean accuracy, each threat model, sizes, training costs."""
    shown = list(shown)
    own: Group = (
        Column(("", "method"), lambda row: row.method, words=True),
        Column(("", "obj."), lambda row: ", ".join(f"{value:z.3f}" for value in row.values) or ABSENT),
        Column(("", "Clean%"), lambda row: _clean(row.outcome, plus_minus)),
    )
    size = (
        Column(("cut%", "heads"), lambda row: f"{row.outcome.sparsity.heads:.1f}"),
        Column(("", "neurons"), lambda row: f"{row.outcome.sparsity.neurons:.1f}"),
        Column(("", "weights"), lambda row: f"{row.outcome.sparsity.weights:.1f}"),
        Column(("params", "M"), lambda row: f"{row.outcome.sparsity.parameters / 1e6:.2f}"),
        Column(("", "total"), lambda row: f"{row.outcome.sparsity.parameters_total / 1e6:.2f}"),
    )
    # Figures of different fingerprints never share a column, even under one name.
    threats = {(figures.threat, figures.fingerprint): None for row in shown for figures in row.outcome.attacks}
    names = [threat for threat, _ in threats]
    threats = dict.fromkeys(sorted(threats, key=lambda threat: names.index(threat[0])))
    attacks = [_threat_group(threat, fingerprint, ambiguous=names.count(threat) > 1) for threat, fingerprint in threats]
    if any(twin.metric == "weighted_f1" for row in shown for twin in row.outcome.ood):
        own = (*own, Column(("", "F1%"), lambda row: _weighted_f1(row.outcome)))
    return [own, *_twin_groups(shown), *attacks, size, *_cost_groups(shown)]


def _twin_groups(shown: list[Row]) -> list[Group]:
    """A group of columns per OOD twin: its figure, then accuracy per group."""
    members: dict[tuple[str, str], dict[str, None]] = {}
    for row in shown:
        for twin in row.outcome.ood:
            members.setdefault((twin.name, twin.metric), {}).update(dict.fromkeys(twin.groups))
    return [_twin_group(name, metric, tuple(groups)) for (name, metric), groups in members.items()]


def _twin_group(name: str, metric: str, members: tuple[str, ...]) -> Group:
    def cell(show: Callable[[OodFigures], str]) -> Callable[[Row], str]:
        def text(row: Row) -> str:
            found = [twin for twin in row.outcome.ood if (twin.name, twin.metric) == (name, metric)]
            return show(found[0]) if found else ABSENT

        return text

    def group(member: str) -> Callable[[OodFigures], str]:
        return lambda twin: f"{twin.groups[member]:.1f}" if member in twin.groups else ABSENT

    whole = Column((f"ood {name}", f"{OOD_METRICS[metric]} [95%]"), cell(_twin))
    return (whole, *(Column(("", member), cell(group(member))) for member in members))


def _cost_groups(shown: list[Row]) -> list[Group]:
    """Training cost as a multiple of a baseline's: in passes, and in seconds where the baseline was run."""
    return [
        (
            Column((f"{unit}/{name}", "train"), _relative(kind, unit, with_search=False)),
            Column(("", "+search"), _relative(kind, unit, with_search=True)),
        )
        for unit in ("passes", "seconds")
        for kind, name in ADVERSARIES.items()
        if any(_relative(kind, unit, with_search=False)(row) != ABSENT for row in shown)
    ]


def _relative(kind: str, unit: str, with_search: bool) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        against = [getattr(baseline, unit) for baseline in row.baselines if baseline.adversary == kind]
        if row.cost is None or not against or not against[0]:
            return ABSENT
        spent = row.cost.total if with_search else row.cost.retraining
        return f"{getattr(spent, unit) / against[0]:.2f}"

    return text


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
    mark, objections = FRONT if trial.id in summary.front else " ", (*outcome.flags, *outcome.notes)
    if trial.feasible is False:
        mark, objections = BARRED, objections or ("it does not meet the objective's conditions",)
    elif trial.id == summary.selected.trial:
        mark = SELECTED
    method = trial.title or ABSENT
    baselines = summary.cost_baselines
    return Row(f"trial {trial.number}", method, outcome, trial.cost, baselines, trial.values or (), mark, objections)


def _control_row(control: ControlRecord, summary: Summary) -> Row:
    method, said = control.title or ABSENT, (*control.outcome.flags, *control.outcome.notes)
    return Row(control.name, method, control.outcome, control.cost, summary.cost_baselines, objections=said)


def _clean(outcome: Outcome, plus_minus: str) -> str:
    low, high = outcome.clean.interval
    return f"{outcome.clean.accuracy:.1f} {plus_minus}{(high - low) / 2:.1f}"


def _weighted_f1(outcome: Outcome) -> str:
    """In distribution, beside a twin that is measured so."""
    return ABSENT if outcome.clean.weighted_f1 is None else f"{outcome.clean.weighted_f1:.1f}"


def _aua(figures: AttackFigures) -> str:
    low, high = figures.interval
    return f"{figures.accuracy_under_attack:.1f} [{low:.1f}-{high:.1f}]"


def _twin(twin: OodFigures) -> str:
    low, high = twin.interval
    return f"{twin.value:.1f} [{low:.1f}-{high:.1f}]"


def _mean(values: tuple[float, ...] | None) -> float:
    return sum(values) / len(values) if values else float("-inf")
