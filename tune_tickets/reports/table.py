"""The closing table of a search, like the main tables of the papers: trials and controls in rows, notes below."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from tune_tickets.config.training import ADVERSARIES
from tune_tickets.engine.stage import ExtensibleStage, Stage, digest_of
from tune_tickets.reports.attacked import say
from tune_tickets.reports.comparisons import compared, ood_claims
from tune_tickets.reports.pictures.evidence import stage_kind
from tune_tickets.results.metrics import Metric, columns_of, find
from tune_tickets.results.metrics import shown as cell_text
from tune_tickets.results.records import (
    AttackFigures,
    ControlRecord,
    Cost,
    CostBaseline,
    MaskedHead,
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
    """One measured model. `mark` says whether it is selected, on the front or barred, `objections` why."""

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
    """Whether it is aligned left, as text; numbers are aligned right."""


Group = tuple[Column, ...]


def rows(summary: Summary, top: int) -> list[Row]:
    """Return the best `top` trials and the best of every method, the selected one first, then their controls."""
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
    """Return the selected trial, if there is one, and its controls."""
    found = [trial for trial in summary.trials if trial.id == summary.selected.trial]
    winner = [_trial_row(trial, trial.outcome, summary) for trial in found if trial.outcome is not None]
    return winner + [_control_row(control, summary) for control in summary.controls if control.like is None]


def groups(shown: Iterable[Row], plus_minus: str) -> list[Group]:
    """Return the columns: method and clean accuracy, twins, suites, each threat model, sizes, training costs."""
    shown = list(shown)
    own: Group = (
        Column(("", "method"), lambda row: row.method, words=True),
        Column(("", "obj."), lambda row: ", ".join(f"{value:z.3f}" for value in row.values) or ABSENT),
        *(_column(metric, plus_minus) for metric in _model_metrics("own") if _is_shown(metric, shown)),
    )
    size = (
        *(_column(metric, plus_minus, "" if index else "cut%") for index, metric in enumerate(_model_metrics("size"))),
        Column(("params", "M"), lambda row: f"{row.outcome.sparsity.parameters / 1e6:.2f}"),
        Column(("", "total"), lambda row: f"{row.outcome.sparsity.parameters_total / 1e6:.2f}"),
    )
    return [own, *_twin_groups(shown), *_suite_groups(shown), *_threat_groups(shown), size, *_cost_groups(shown)]


def _model_metrics(group: str) -> list[Metric]:
    """The metrics of a whole model that have a column."""
    return [metric for metric in columns_of() if metric.group == group]


def _is_shown(metric: Metric, shown: list[Row]) -> bool:
    """Weighted F1 in distribution has a column only if a twin is measured by it."""
    return metric.name != "weighted_f1" or any(
        twin.metric == "weighted_f1" for row in shown for twin in row.outcome.ood
    )


def _column(metric: Metric, plus_minus: str, title: str = "") -> Column:
    return Column((title, metric.column), lambda row: cell_text(metric, row.outcome, plus_minus) or ABSENT)


def _twin_groups(shown: list[Row]) -> list[Group]:
    """A group of columns per OOD twin: its metric, then accuracy per group."""
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
    """Training cost relative to a baseline: in passes, and in seconds if the baseline was run."""
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


def _suite_groups(shown: list[Row]) -> list[Group]:
    """The accuracy under a suite of attacks. Different suites never share a column."""
    suites = dict.fromkeys(row.outcome.suite.fingerprints for row in shown if row.outcome.suite is not None)
    return [_suite_group(suite, ambiguous=len(suites) > 1) for suite in suites]


def _suite_group(fingerprints: tuple[str, ...], ambiguous: bool) -> Group:
    aua = find("aua")
    assert aua is not None

    def text(row: Row) -> str:
        suite = row.outcome.suite
        own = suite is not None and suite.fingerprints == fingerprints
        return (cell_text(aua, row.outcome) if own else None) or ABSENT

    title = f"suite {digest_of(fingerprints)[:8]}" if ambiguous else "suite"
    return (Column((title, "Aua% [95%]"), text),)


def _threat_groups(shown: list[Row]) -> list[Group]:
    """Threat models with different fingerprints, or at different places of a suite, never share a column."""
    threats = dict.fromkeys(_identity(figures) for row in shown for figures in row.outcome.attacks)
    titles = [_title(*threat) for threat in threats]
    ordered = sorted(threats, key=lambda threat: titles.index(_title(*threat)))
    return [_threat_group(threat, ambiguous=titles.count(_title(*threat)) > 1) for threat in ordered]


_Identity = tuple[str, str, tuple[str, ...] | None]


def _identity(figures: AttackFigures) -> _Identity:
    return figures.threat, figures.fingerprint, figures.after


def _title(threat: str, fingerprint: str, after: tuple[str, ...] | None) -> str:
    """In a suite it is the accuracy after this and all earlier threat models, not under this one alone."""
    return threat if after is None else f"after {threat}"


def _threat_group(threat: _Identity, ambiguous: bool) -> Group:
    _, fingerprint, after = threat
    apart = fingerprint if not after else digest_of([*after, fingerprint])
    title = f"{_title(*threat)} {apart[:8]}" if ambiguous else _title(*threat)

    def cell(show: Callable[[AttackFigures], str]) -> Callable[[Row], str]:
        def text(row: Row) -> str:
            found = [figures for figures in row.outcome.attacks if _identity(figures) == threat]
            return show(found[0]) if found else ABSENT

        return text

    def column(index: int, metric: Metric) -> Column:
        above = "" if index else title
        return Column((above, metric.column), cell(lambda figures: cell_text(metric, figures) or ABSENT))

    metrics = columns_of("<threat>", suite=after is not None)
    return tuple(column(index, metric) for index, metric in enumerate(metrics))


def _trial_row(trial: TrialRecord, outcome: Outcome, summary: Summary) -> Row:
    mark, objections = FRONT if trial.id in summary.front else " ", (*outcome.flags, *outcome.notes)
    if trial.feasible is False:
        reasons = outcome.flags or ("it does not meet the objective's conditions",)
        mark, objections = BARRED, (*reasons, *outcome.notes)
    elif trial.id == summary.selected.winner:
        mark = SELECTED
    method = trial.title or ABSENT
    baselines = summary.cost_baselines
    return Row(f"trial {trial.number}", method, outcome, trial.cost, baselines, trial.values or (), mark, objections)


def _control_row(control: ControlRecord, summary: Summary) -> Row:
    method, said = control.title or ABSENT, (*control.outcome.flags, *control.outcome.notes)
    return Row(control.name, method, control.outcome, control.cost, summary.cost_baselines, objections=said)


def _twin(twin: OodFigures) -> str:
    low, high = twin.interval
    return f"{twin.value:.1f} [{low:.1f}-{high:.1f}]"


def _mean(values: tuple[float, ...] | None) -> float:
    return sum(values) / len(values) if values else float("-inf")


GAP = 2
STYLES = {SELECTED: "bold green", BARRED: "dim"}
LEGEND = (
    "obj.: objective. Clean%: accuracy on unchanged select rows. Aua%: the same under attack. suite: rows that "
    "withstand all attacks, one after the other. after: rows left after this attack and those before. Suc%: successful "
    "attacks. #Query: mean per attacked row. ood: on select rows of an out-of-distribution twin, whole and by group. "
    "cut%: share removed. params: millions, without embeddings and in total. "
    "Intervals are 95%."
)


def print_rows(console: Console, shown: list[Row]) -> None:
    """Print the table, the meaning of its marks, and its legend."""
    plus_minus = "±" if console.encoding.lower().startswith("utf") else "+-"
    name = Column(("", ""), lambda row: f"{row.mark} {row.name}", words=True)
    for columns in packed(name, groups(shown, plus_minus), shown, console.width):
        console.print()
        console.print(_Unclipped(_table(columns, shown), _width(columns, shown)), crop=False)
    for sentence in _marks(shown):
        say(console, sentence)
    say(console, LEGEND, style="dim")


def _marks(shown: list[Row]) -> Iterator[str]:
    meanings = {SELECTED: "selected", FRONT: "on the front: no other trial beats it in every metric"}
    used = {row.mark for row in shown}
    if known := [f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in used]:
        yield "; ".join(known)
    for row in shown:
        if row.objections:
            barred = " is ruled out" if row.mark == BARRED else ""
            yield f"{row.mark} {row.name}{barred}: {'; '.join(row.objections)}"


def packed(name: Column, wanted: list[Group], shown: list[Row], limit: int) -> list[Group]:
    """Put groups side by side while they fit; every table begins with the names."""
    tables: list[Group] = []
    for group in wanted:
        if tables and _width(tables[-1] + group, shown) <= limit:
            tables[-1] += group
        else:
            tables.append((name, *group))
    return tables


def _column_width(column: Column, shown: list[Row]) -> int:
    return max(len(text) for text in (*column.header, *(column.cell(row) for row in shown)))


def _width(columns: Group, shown: list[Row]) -> int:
    return sum(_column_width(column, shown) for column in columns) + GAP * (len(columns) - 1)


def _table(columns: Group, shown: list[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column in columns:
        justify: JustifyMethod = "left" if column.words else "right"
        width = _column_width(column, shown)
        table.add_column(Text("\n".join(column.header)), justify=justify, no_wrap=True, min_width=width)
    for row in shown:
        table.add_row(*(Text(column.cell(row)) for column in columns), style=STYLES.get(row.mark))
    return table


@dataclass(frozen=True)
class _Unclipped:
    """A table at full width: a narrow terminal wraps its lines, while rich would cut numbers."""

    table: Table
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.table, options.update(width=self.width))


MAIN = "task"


def by_task(shown: list[Row]) -> list[Row]:
    """Return each model on each task, grouped by task as in ORTicket's Table 1; nothing for a single task."""
    tasks = list(dict.fromkeys(name for row in shown for name in _outcomes(row)))
    if tasks in ([], [MAIN]):
        return []
    return [
        replace(row, name=f"{task}: {row.name}", outcome=_outcomes(row)[task], cost=None, values=(), objections=())
        for task in tasks
        for row in shown
        if task in _outcomes(row)
    ]


def stage_text(summary: Summary) -> str:
    """Say how many searches the tickets of all trials and tasks needed."""
    said = [
        f"{name}: {use.computed} computed for {use.asked} trials"
        for name, use in summary.stages.items()
        if issubclass(stage_kind(name) or Stage, ExtensibleStage)
    ]
    return f"{'; '.join(said)}; none was repeated for a task." if said else ""


def head_text(head: MaskedHead | None) -> str:
    """Say which masked language model the search used: a weak one leaves little to learn."""
    assert head is not None
    origin = "The checkpoint has no masked-LM head: one was fitted before the search"
    if not head.fitted:
        origin = "The search on masked text used the checkpoint's own masked-LM head"
    return f"{origin}. It guesses {head.top1:.1f}% of hidden tokens, {head.top10:.1f}% within its ten best."


def _outcomes(row: Row) -> dict[str, Outcome]:
    return {MAIN: row.outcome} | {transfer.name: transfer.outcome for transfer in row.outcome.transfers}


TOP = 10
COST_LEGEND = (
    "passes, seconds: training cost relative to PGD or FreeLB training of the whole model. A pass is "
    "forward and backward over the training rows, each adversarial pass counts as one; +search adds the cost of "
    "finding the ticket."
)


def print_table(summary: Summary, console: Console, top: int = TOP) -> None:
    """Print the verdict, the first `top` trials, the best of every method, their controls, and comparisons."""
    shown = rows(summary, top)
    if summary.verdict is not None:
        say(console, summary.verdict.sentence, style="bold")
    say(console, _count(summary, top))
    if shown:
        print_rows(console, shown)
        if tasks := by_task(shown):
            console.print()
            say(console, f"The same tickets on every task. {stage_text(summary)}")
            print_rows(console, tasks)
        for line in explanations(summary, shown):
            say(console, line, style="dim")
    console.print()
    say(console, summary.selected.reason, style="bold")
    if summary.selected.trial is not None:
        say(console, compared(summary.selected))
    for _, line in ood_claims(summary):
        say(console, line)


def explanations(summary: Summary, shown: list[Row]) -> Iterator[str]:
    """Yield what a reader must know in addition to the legend."""
    yield from dict.fromkeys(head_text(row.outcome.masked_head) for row in shown if row.outcome.masked_head)
    fitted = [figures for row in shown for figures in row.outcome.attacks if figures.masked_lm is not None]
    yield from dict.fromkeys(map(_proposer, fitted))
    if any(row.cost for row in shown):
        yield f"{COST_LEGEND} {baselines_text(summary)}"


def baselines_text(summary: Summary) -> str:
    """Say what training costs are relative to."""
    trials = {trial.id: f"trial {trial.number}" for trial in summary.trials}
    return " ".join(_baseline(baseline, trials) for baseline in summary.cost_baselines)


def _baseline(baseline: CostBaseline, trials: Mapping[str, str]) -> str:
    name = ADVERSARIES[baseline.adversary]
    work = f"{baseline.epochs} epochs of {name}-{baseline.steps}, {baseline.passes:g} passes"
    if baseline.trial is None:
        return f"{name} was not run: computed for {work}."
    return f"{name} is {trials[baseline.trial]}: {work}."


def _proposer(figures: AttackFigures) -> str:
    """Say how good the fitted masked language model of an attack is: a weak one makes a weak attack."""
    found = figures.masked_lm
    assert found is not None
    accuracy = f"guesses {found.top1:.1f}% of hidden tokens, {found.top10:.1f}% within its ten best"
    return f"{figures.threat}: the masked language model that proposes its words {accuracy}."


def _count(summary: Summary, top: int) -> str:
    states = Counter(trial.status for trial in summary.trials)
    parts = ", ".join(f"{number} {status}" for status, number in states.items()) or "none"
    best = f"; the first {top} are shown" if states["complete"] > top else ""
    return f"{summary.experiment}: {len(summary.trials)} trials ({parts}){best}"
