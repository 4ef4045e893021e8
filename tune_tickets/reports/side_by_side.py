"""Finished experiments side by side, on the terminal and as a Markdown page."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from pydantic import Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tune_tickets.config.domain import DOMAINS, is_domain
from tune_tickets.config.source import Document, read_yaml
from tune_tickets.errors import TicketsError
from tune_tickets.reports.attacked import say
from tune_tickets.reports.comparisons import compared_outcomes, sentence
from tune_tickets.reports.table import (
    ABSENT,
    COST_LEGEND,
    LEGEND,
    Row,
    baselines_text,
    groups,
    print_rows,
    winner_and_controls,
)
from tune_tickets.results.folder import Results
from tune_tickets.results.records import Comparison, Cost, Outcome, Record, SearchStatus, Summary, TrialRecord
from tune_tickets.results.summary import FILE_NAME, read_summary

WITHOUT_EFFECT = ("name", "store", "tracking")
"""Sections that cannot change a result."""


@dataclass(frozen=True)
class Finished:
    """One experiment: its summary, and its configuration under dotted keys, with search domains as values."""

    label: str
    folder: Path
    summary: Summary
    settings: Mapping[str, Any]

    @property
    def winner(self) -> TrialRecord | None:
        """The selected trial."""
        return next((trial for trial in self.summary.trials if trial.id == self.summary.selected.trial), None)


def read_finished(folders: Sequence[Path]) -> list[Finished]:
    """Read two or more results folders as A, B, C, ...

    Raises:
        TicketsError: there are too few or too many, one is named twice, or one cannot be read.
    """
    places = [folder.parent if folder.name == FILE_NAME else folder for folder in folders]
    if len(places) < 2:
        raise TicketsError("Name two or more results folders to compare, such as results/a results/b.")
    if len({place.resolve() for place in places}) < len(places):
        raise TicketsError("A results folder is named twice. Name different folders.")
    if len(places) > len(ascii_uppercase):
        raise TicketsError(f"{len(places)} experiments do not fit on a page: compare at most {len(ascii_uppercase)}.")
    return [read_results(place, label) for place, label in zip(places, ascii_uppercase, strict=False)]


def read_results(folder: Path, label: str = "") -> Finished:
    """Read one results folder."""
    summary = read_summary(folder)
    config = Results(folder, store_url="").config
    if not config.is_file():
        raise TicketsError(f"There is no {config.name} in {folder}: name a results folder as the search wrote it.")
    document, _ = read_yaml(config)
    effective = {key: value for key, value in document.items() if key not in WITHOUT_EFFECT}
    return Finished(label, folder, summary, _flat(effective))


def _flat(section: Document, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict) and not is_domain(value):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def chosen_text(experiment: Finished, name: str) -> str:
    """Show a fixed value, or the value of the winner and its domain."""
    value = experiment.settings[name]
    if not is_domain(value):
        return plain(value)
    winner = experiment.winner
    domain = domain_text(value)
    return f"{plain(winner.params[name])} of {domain}" if winner and name in winner.params else domain


def domain_text(domain: dict[str, Any]) -> str:
    """Show a search domain without its conditions: 'uniform [0.1, 0.5]'."""
    kind = next(key for key in DOMAINS if key in domain)
    return f"{kind} {plain(domain[kind])}"


def condition_text(domain: dict[str, Any]) -> str:
    """Show when it is searched: 'method.kind: earlyrobust'; empty for always."""
    return "; ".join(f"{path}: {plain(value)}" for path, value in (domain.get("when") or {}).items())


def plain(value: Any) -> str:  # noqa: ANN401 - any YAML value
    """Show a value as in YAML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {plain(each)}' for key, each in value.items())}}}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


class ComparedExperiment(Record):
    """The experiment behind a label."""

    label: str
    folder: str
    experiment: str
    config_digest: str
    status: SearchStatus
    winner: str | None = Field(description="The selected trial")
    params: dict[str, Any] = Field(description="Its values of the search domains")


class ComparedModel(Record):
    """A winner or control."""

    experiment: str = Field(description="Label of its experiment")
    name: str
    method: str
    outcome: Outcome
    cost: Cost | None


class PairedWinners(Comparison):
    """The winner of `one` compared with that of `other`, both labels."""

    one: str


class SideBySide(Record):
    """What `tune-tickets compare --json` writes. Fields are only ever added."""

    experiments: tuple[ComparedExperiment, ...]
    models: tuple[ComparedModel, ...]
    comparisons: tuple[PairedWinners, ...]
    notes: tuple[str, ...] = Field(description="What to know before comparing metrics")
    differences: dict[str, dict[str, Any]] = Field(description="Setting -> label -> value; a label may lack it")


def compared_rows(experiments: Iterable[Finished]) -> list[Row]:
    """Return the rows of one table. Their names begin with the label of their experiment."""
    return [
        replace(row, name=f"{experiment.label} {row.name}")
        for experiment in experiments
        for row in winner_and_controls(experiment.summary)
    ]


def side_by_side(experiments: list[Finished]) -> SideBySide:
    """Compare the experiments."""
    return SideBySide(
        experiments=tuple(map(_identity, experiments)),
        models=tuple(
            ComparedModel(
                experiment=experiment.label, name=row.name, method=row.method, outcome=row.outcome, cost=row.cost
            )
            for experiment in experiments
            for row in winner_and_controls(experiment.summary)
        ),
        comparisons=tuple(_comparisons(experiments)),
        notes=(*_states(experiments), *_threats(experiments), *_samples(experiments)),
        differences=_differences(experiments),
    )


def _identity(experiment: Finished) -> ComparedExperiment:
    summary, winner = experiment.summary, experiment.winner
    return ComparedExperiment(
        label=experiment.label,
        folder=str(experiment.folder),
        experiment=summary.experiment,
        config_digest=summary.config_digest,
        status=summary.status,
        winner=winner.id if winner else None,
        params=winner.params if winner else {},
    )


def _winners(experiments: Iterable[Finished]) -> dict[str, Outcome]:
    found = {experiment.label: experiment.winner for experiment in experiments}
    return {label: trial.outcome for label, trial in found.items() if trial is not None and trial.outcome is not None}


def _comparisons(experiments: list[Finished]) -> Iterator[PairedWinners]:
    """Paired tests of winners, for attacks with the same threat model and the same rows."""
    for (label, one), (name, other) in combinations(_winners(experiments).items(), 2):
        known = tuple(figures for figures in one.attacks if figures.sample)
        suite = one.suite if one.suite is not None and one.suite.sample else None
        for comparison in compared_outcomes(name, one.model_copy(update={"attacks": known, "suite": suite}), other):
            yield PairedWinners(one=label, **comparison.model_dump())


def _states(experiments: list[Finished]) -> Iterator[str]:
    for experiment in experiments:
        summary = experiment.summary
        if experiment.winner is None:
            yield f"{experiment.label} has no winner: {summary.selected.reason}"
        if summary.status != "finished":
            ended = summary.status if summary.status == "failed" else f"was {summary.status}"
            yield f"{experiment.label} {ended} before all its trials were done: more trials could find better tickets."


def _threats(experiments: list[Finished]) -> Iterator[str]:
    """Warn about names that stand for different threat models."""
    users: dict[str, dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for experiment in experiments:
        for row in winner_and_controls(experiment.summary):
            for figures in row.outcome.attacks:
                users[figures.threat][figures.fingerprint][experiment.label] = None
    for name, fingerprints in users.items():
        if len(fingerprints) > 1:
            known = "; ".join(f"{', '.join(labels)}: {found[:8]}" for found, labels in fingerprints.items())
            yield (
                f"{name} is not the same threat model everywhere ({known}): each has its own columns. Do not compare "
                "them."
            )


def _samples(experiments: list[Finished]) -> Iterator[str]:
    """Warn about pairs of winners that were measured on different or unknown rows."""
    for (label, one), (name, other) in combinations(_winners(experiments).items(), 2):
        if not one.clean.sample or one.clean.sample != other.clean.sample:
            yield f"Clean%: {label} and {name} {_apart(one.clean.sample, other.clean.sample)}."
        samples = {twin.name: twin.sample for twin in other.ood}
        for twin in one.ood:
            if twin.name in samples and twin.sample != samples[twin.name]:
                yield f"ood {twin.name}: {label} and {name} {_apart(twin.sample, samples[twin.name])}."
        if _suite(one) != _suite(other):
            yield f"Aua%: {label} and {name} were attacked by different suites, or one by none. Do not compare them."
        for ours in one.attacks:
            for theirs in other.attacks:
                same = ours.sample and ours.sample == theirs.sample
                if ours.fingerprint == theirs.fingerprint and not same:
                    reason = _apart(ours.sample, theirs.sample)
                    yield f"{ours.threat}: {label} and {name} {reason}, so there is no paired test of them."


def _suite(outcome: Outcome) -> tuple[str, ...]:
    return () if outcome.suite is None else outcome.suite.fingerprints


def _apart(one: str, other: str) -> str:
    return "were measured on different rows" if one and other else "do not both say which rows they were measured on"


def _differences(experiments: list[Finished]) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(name for experiment in experiments for name in experiment.settings)
    values = {
        name: {one.label: one.settings[name] for one in experiments if name in one.settings} for name in names
    }  # fmt: skip
    return {
        name: found
        for name, found in values.items()
        if len(found) < len(experiments) or len({repr(value) for value in found.values()}) > 1
    }


SAME = "All settings that they share are equal."
CAVEAT = "These rows also steered the searches: confirm the tickets on report rows before claiming more."


def print_comparison(experiments: list[Finished], found: SideBySide, console: Console) -> None:
    """Print one table of all winners and controls, comparisons and notes, and the settings that differ."""
    say(console, "\n".join(_headings(found)))
    if shown := compared_rows(experiments):
        print_rows(console, shown)
        say(console, "\n".join(_costs(experiments)), style="dim")
    console.print()
    say(console, "\n".join(_sentences(found)))
    console.print()
    header, *settings = _settings(experiments, found)
    table = Table(title="What differs in the settings", title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")  # if cut, two names may look the same
    for line in settings:
        table.add_row(*map(Text, line))
    console.print(table if settings else SAME)
    say(console, _own_settings(experiments, found))


def comparison_markdown(experiments: list[Finished], found: SideBySide) -> str:
    """Return the comparison as a Markdown page."""
    parts = ["# Experiments side by side", _bullets(_headings(found))]
    if shown := compared_rows(experiments):
        parts += [_table(_figures(shown)), LEGEND, "\n\n".join(_costs(experiments))]
    header, *settings = _settings(experiments, found)
    differing = _table([header, *settings]) if settings else SAME
    parts += [_bullets(_sentences(found)), "## What differs in the settings", differing]
    return "\n\n".join(part for part in (*parts, _own_settings(experiments, found)) if part) + "\n"


def _headings(found: SideBySide) -> Iterator[str]:
    for one in found.experiments:
        yield f"{one.label}: {one.experiment} in {one.folder} ({one.status})"


def _costs(experiments: list[Finished]) -> Iterator[str]:
    yield COST_LEGEND
    for one in experiments:
        if one.summary.cost_baselines:
            yield f"{one.label}: {baselines_text(one.summary)}"


def _sentences(found: SideBySide) -> Iterator[str]:
    yield from found.notes
    yield from map(_sentence, found.comparisons)
    if found.comparisons:
        yield CAVEAT


def _sentence(comparison: PairedWinners) -> str:
    named = comparison.model_copy(update={"other": f"that of {comparison.other}"})
    return sentence(named, subject=f"the ticket of {comparison.one}")


def _settings(experiments: list[Finished], found: SideBySide) -> Iterator[list[str]]:
    """A header, then the settings that all experiments share and that differ."""
    yield ["setting", *(one.label for one in experiments)]
    for name, values in found.differences.items():
        if len(values) == len(experiments):
            yield [name, *(chosen_text(one, name) for one in experiments)]


def _own_settings(experiments: list[Finished], found: SideBySide) -> str:
    own = [name for name, values in found.differences.items() if len(values) < len(experiments)]
    if not own:
        return ""
    return f"{len(own)} more settings exist only in some of the experiments, such as {own[0]}: --json FILE lists them."


def _figures(shown: list[Row]) -> Iterator[list[str]]:
    """All columns in one table; a title is repeated on each column that it covers."""
    columns = [column for group in groups(shown, "±") for column in group]
    headers, title = ["model"], ""
    for above, below in (column.header for column in columns):
        title = above or title
        headers.append(f"{title} {below}".strip())
    yield headers
    for row in shown:
        yield [f"{row.mark} {row.name}".strip(), *(column.cell(row) for column in columns)]


def _table(lines: Iterator[list[str]] | Sequence[list[str]]) -> str:
    header, *rest = ([cell.replace("|", "\\|") or ABSENT for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rest))


def _bullets(lines: Iterator[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
