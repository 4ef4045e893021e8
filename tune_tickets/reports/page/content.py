"""The content of a report as plain text, in reading order. The page and its Markdown version both show it."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_tickets.config.domain import is_domain
from tune_tickets.config.objective import Objective
from tune_tickets.reports.confirmed import cells, failures, meaning
from tune_tickets.reports.page.claims import (
    Claim,
    Detail,
    Pairs,
    claims,
    confirmed_claims,
    details,
    duration,
    not_confirmed,
)
from tune_tickets.reports.page.figures import FigureTable, Scatter, figure_table, paper_tables, scatter
from tune_tickets.reports.page.source import Source
from tune_tickets.reports.pictures.style import Picture
from tune_tickets.reports.side_by_side import condition_text, domain_text, plain
from tune_tickets.reports.table import BARRED, LEGEND, Row, baselines_text, by_task, explanations, rows, stage_text
from tune_tickets.results.records import Summary, ThreatRecord, Verdict

_FILES = ("source", "held_out", "like", "corpus", "vectors")
"""Keys that name a file or folder, in any section."""
_EXTENSION = re.compile(r"\.(csv|tsv|jsonl?|parquet|txt|safetensors)(\.gz)?$", re.IGNORECASE)


def reproduce(source: Source) -> tuple[str, ...]:
    """Return the commands that repeat the search, for the folder that holds the results folder."""
    folder = shlex.quote(source.finished.folder.name)
    config = shlex.quote(f"{source.finished.folder.name}/config.yaml")
    return (f"tune-tickets run {config} --output again", f"tune-tickets compare {folder} again")


def paths_to_mend(source: Source) -> str:
    """Name relative paths in the configuration; empty if there are none."""
    relative = [f"{name} ({path})" for name, path in _named(source) if _is_relative(path)]
    if not relative:
        return ""
    first = relative[0].split(" ")[0]
    return (
        f"These paths are relative to the folder in which the command runs: {', '.join(relative)}. "
        f"In another folder add the place of the file, for example {first}=/path/to/it."
    )


def _named(source: Source) -> Iterator[tuple[str, str]]:
    """Settings that may name a file, including those in the list of OOD twins."""
    for name, value in source.finished.settings.items():
        if name.rpartition(".")[2] in _FILES and isinstance(value, str):
            yield name, value
        elif name.endswith("task.ood"):
            yield from ((name, str(twin["source"])) for twin in value or () if "source" in twin)


def _is_relative(path: str) -> bool:
    """Whether a path is relative. A name without a file here is a hub id, as for the search itself."""
    is_file = bool(_EXTENSION.search(path)) or path.startswith(("./", "../")) or Path(path).exists()
    return is_file and "://" not in path and not Path(path).expanduser().is_absolute()


def load(source: Source) -> tuple[str, ...]:
    """Return Python code that opens the best ticket, if there is one."""
    ticket = source.summary.selected.ticket
    if ticket is None:
        return ()
    path = f"{source.finished.folder.name}/{ticket}"
    pair = isinstance(source.finished.settings.get("task.text"), list)
    row = "('the first text', 'the second text')" if pair else "'a text to classify'"
    return (
        "from tune_tickets import load_ticket",
        "",
        f"ticket = load_ticket({path!r})",
        f"ticket.predict([{row}])  # [(label, probability)]",
    )


def objective_sentences(objective: Objective) -> Iterator[str]:
    """Describe the objective: the value first, then the conditions."""
    yield _value(objective)
    if objective.floor_points is not None:
        yield f"A ticket may lose at most {objective.floor_points:g} points of clean accuracy to the dense control."
    if objective.floor_clean is not None:
        yield f"A ticket must reach {objective.floor_clean:g}% clean accuracy."
    yield from (f"A ticket must meet {constraint.text}." for constraint in objective.constraints)
    yield f"A model that gives one label to {100 * objective.near_constant:g}% of rows or more is ruled out."


def _value(objective: Objective) -> str:
    if objective.kind == "weighted":
        terms = " + ".join(f"{weight:g} {name}" for name, weight in objective.weighting.items())
        return f"Maximised: the weighted mean {terms}."
    if objective.kind == "harmonic":
        return f"Maximised: the harmonic mean of {', '.join(objective.metrics)}."
    if objective.kind == "constrained":
        return f"Maximised: {objective.maximise}, under the conditions below."
    return f"Improved together, as a Pareto front: {', '.join(objective.metrics)}."


CONFIRM_NAMES = 3
CONTROLS = (
    "Controls are measured like trials. dense is the whole model, fine-tuned once for all trials with the retraining "
    "of the first warm start, or else with the first value of every domain. A random ticket keeps as many parts in "
    "every layer as the ticket of the first rank (or as the trial in its name), drawn at random, and is trained in "
    "the same way. The difference to these controls shows the worth of a ticket."
)
PAPER_COLUMNS = 4
Cells = tuple[tuple[str, ...], ...]
"""A header, then lines."""


@dataclass(frozen=True)
class Confirmed:
    """Results on report rows. `claims` are about the first ticket, `further` about others and groups of twins."""

    cells: Cells
    paper: tuple[Cells, ...]
    meaning: str
    claims: tuple[Claim, ...]
    further: tuple[Claim, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """One report."""

    experiment: str
    state: str
    verdict: Verdict | None
    beaten: bool
    cards: tuple[tuple[str, str, str], ...]
    confirmed: Confirmed | None
    not_confirmed: str
    facts: Pairs
    objective: tuple[str, ...]
    domains: Cells
    settings: Pairs
    table: FigureTable | None
    paper: tuple[FigureTable, ...]
    legend: tuple[str, ...]
    flags: tuple[str, ...]
    scatter: Scatter | None
    pictures: tuple[Picture, ...]
    reason: str
    chosen: Detail | None
    """The ticket of the first rank, also if it is beaten."""
    claims: tuple[Claim, ...]
    tasks: FigureTable | None
    tasks_paper: tuple[FigureTable, ...]
    tasks_said: str
    controls: FigureTable | None
    details: tuple[Detail, ...]
    threats: tuple[ThreatRecord, ...]
    rejections: dict[str, str]
    stages: Cells
    cost: Pairs
    baselines: str
    versions: Pairs
    reproduce: tuple[str, ...]
    paths: str
    load: tuple[str, ...]
    digest: str
    seed: int
    ticket: str | None

    @property
    def title(self) -> str:
        """The title of the part about the ticket of the first rank."""
        return "The ticket of the first rank, and why dense is better" if self.beaten else "The chosen ticket, and why"


def content_of(source: Source, pictures: Sequence[Picture]) -> Content:
    """Collect the content of a report."""
    summary = source.summary
    shown = rows(summary, len(summary.trials))
    tasks = by_task(shown)
    controls = [row for row in shown if row.name in {control.name for control in summary.controls}]
    every = details(summary)
    winner = source.finished.winner
    return Content(
        experiment=summary.experiment,
        state=_state(summary),
        verdict=summary.verdict,
        beaten=summary.selected.beaten,
        cards=tuple(_cards(source)),
        confirmed=_confirmed(source),
        not_confirmed=not_confirmed(source),
        facts=tuple(_facts(source)),
        objective=tuple(objective_sentences(source.objective)),
        domains=tuple(_domains(source)),
        settings=tuple(_settings(source)),
        table=figure_table(shown) if shown else None,
        paper=tuple(paper_tables(shown)) if shown else (),
        legend=(LEGEND, *explanations(summary, shown)) if shown else (),
        flags=tuple(_flags(shown)),
        scatter=scatter(summary, source.objective, shown),
        pictures=tuple(pictures),
        reason=summary.selected.reason,
        chosen=next((each for each in every if winner and each.name == f"trial {winner.number}"), None),
        claims=tuple(claims(summary)),
        tasks=figure_table(tasks) if tasks else None,
        tasks_paper=tuple(paper_tables(tasks)) if tasks else (),
        tasks_said=stage_text(summary) if tasks else "",
        controls=figure_table(controls) if controls else None,
        details=tuple(every),
        threats=summary.threat_models,
        rejections=dict(_rejections(shown)),
        stages=tuple(_stages(summary)),
        cost=tuple(_cost(summary)),
        baselines=baselines_text(summary),
        versions=tuple(summary.versions.items()),
        reproduce=reproduce(source),
        paths=paths_to_mend(source),
        load=load(source),
        digest=summary.config_digest,
        seed=summary.seed,
        ticket=summary.selected.ticket,
    )


def _state(summary: Summary) -> str:
    counts = Counter(trial.status for trial in summary.trials)
    trials = ", ".join(f"{number} {status}" for status, number in counts.items()) or "none"
    stopped = f" ({summary.stopped_by})" if summary.stopped_by else ""
    return f"{summary.status}{stopped}: {len(summary.trials)} trials ({trials}) in {duration(summary.total_seconds)}"


def _cards(source: Source) -> Iterator[tuple[str, str, str]]:
    """The first ticket at a glance, each metric next to that of the dense control."""
    summary, winner = source.summary, source.finished.winner
    if winner is None or winner.outcome is None:
        return
    outcome = winner.outcome
    dense = next((control.outcome for control in summary.controls if control.kind == "dense"), None)
    label = "beaten by dense" if summary.selected.beaten else "chosen"
    yield label, f"trial {winner.number}", winner.title or winner.method
    low, high = outcome.clean.interval
    beside = f", dense {dense.clean.accuracy:.1f}" if dense else ""
    later = _on_report_rows(source)
    yield "clean accuracy", f"{outcome.clean.accuracy:.1f}%", f"{low:.1f}-{high:.1f}{beside}{later.get('clean', '')}"
    if outcome.suite is not None:
        low, high = outcome.suite.interval
        beside = f", dense {dense.suite.accuracy:.1f}" if dense and dense.suite else ""
        yield (
            "under the suite of attacks",
            f"{outcome.suite.accuracy:.1f}%",
            f"{low:.1f}-{high:.1f}{beside}{later.get('aua', '')}",
        )
    others = {figures.fingerprint: figures for figures in dense.attacks} if dense else {}
    for figures in outcome.attacks if outcome.suite is None else ():
        low, high = figures.interval
        other = others.get(figures.fingerprint)
        beside = f", dense {other.accuracy_under_attack:.1f}" if other else ""
        beside += later.get(f"aua/{figures.threat}", "")
        yield f"under {figures.threat}", f"{figures.accuracy_under_attack:.1f}%", f"{low:.1f}-{high:.1f}{beside}"
    yield "cut", f"{outcome.sparsity.overall:.1f}%", "of the parameters without embeddings"


def _on_report_rows(source: Source) -> dict[str, str]:
    """The confirmed metrics of the chosen ticket."""
    models = source.confirmation.models if source.confirmation is not None else ()
    chosen = [model for model in models if model.kind == "ticket" and model.trial == source.summary.selected.trial]
    return {
        name: f"; on report rows {found.mean:.1f}" for model in chosen[:1] for name, found in model.estimates.items()
    }


def _confirmed(source: Source) -> Confirmed | None:
    found = source.confirmation
    if found is None:
        return None
    main, further = confirmed_claims(found, source.summary.selected.trial)
    return Confirmed(
        cells=tuple(map(tuple, cells(found))),
        paper=tuple(_parts(cells(found))),
        meaning=meaning(found),
        claims=main,
        further=further,
        problems=tuple(failures(found)),
    )


def _parts(lines: Sequence[Sequence[str]]) -> Iterator[Cells]:
    """Split a wide table into several for paper, each with the columns that name the model."""
    for start in range(CONFIRM_NAMES, len(lines[0]), PAPER_COLUMNS):
        yield tuple((*line[:CONFIRM_NAMES], *line[start : start + PAPER_COLUMNS]) for line in lines)


def _flags(shown: Sequence[Row]) -> Iterator[str]:
    """Objections, each with all models that it applies to."""
    models: dict[str, list[str]] = defaultdict(list)
    for row in shown:
        if row.objections:
            barred = "ruled out: " if row.mark == BARRED else ""
            models[f"{barred}{'; '.join(row.objections)}"].append(row.name)
    for said, names in models.items():
        yield f"{', '.join(names)}: {said}"


def _facts(source: Source) -> Iterator[tuple[str, str]]:
    settings, summary = source.finished.settings, source.summary
    names = {
        "model": "model.source",
        "layers used": "model.layers",
        "tokens per text": "task.max_length",
        "task": "task.source",
        "training rows": "task.rows.train",
        "select rows (they steer the search)": "task.rows.select",
        "report rows (only for confirm)": "task.rows.report",
        "attacked rows": "evaluation.rows",
        "sampler": "search.sampler",
        "scheduler": "search.scheduler.kind",
    }
    yield "methods", ", ".join(dict.fromkeys(trial.title for trial in summary.trials if trial.title)) or "-"
    for said, name in names.items():
        if settings.get(name) is not None:
            yield said, plain(settings[name])
        elif name == "task.rows.train" and name in settings:
            yield said, "all other rows"
    yield "threat models", ", ".join(threat.name for threat in summary.threat_models) or "none"
    yield "seed", str(summary.seed)


def _domains(source: Source) -> Iterator[tuple[str, ...]]:
    winner = source.finished.winner
    beaten = winner is not None and source.summary.selected.beaten
    yield "setting", "domain", "only if", f"trial {winner.number}" if winner and beaten else "chosen"
    for name, value in source.finished.settings.items():
        if is_domain(value):
            chosen = plain(winner.params[name]) if winner and name in winner.params else "-"
            yield name, domain_text(value), condition_text(value) or "-", chosen


def _settings(source: Source) -> Iterator[tuple[str, str]]:
    for name, value in source.finished.settings.items():
        long = name == "search.warm_starts" and value
        yield name, f"{len(value)} points, see config.yaml" if long else plain(value)


def _rejections(shown: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """By fingerprint: how many changes the attack on the first model proposed, and how many were rejected."""
    for row in shown[:1]:
        for figures in row.outcome.attacks:
            if figures.candidates:
                rejected = ", ".join(f"{share:.0f}% by {name}" for name, share in figures.rejected.items()) or "none"
                yield (
                    figures.fingerprint,
                    f"{figures.candidates:,} changed texts were proposed against {row.name}; rejected: {rejected}.",
                )


def _stages(summary: Summary) -> Iterator[tuple[str, ...]]:
    yield "stage", "requested", "computed", "reused", "computing time"
    for name, use in summary.stages.items():
        yield name, str(use.asked), str(use.computed), str(use.asked - use.computed), duration(use.seconds)


def _cost(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "last session, from start to end", duration(summary.total_seconds)
    computed = sum(use.seconds for use in summary.stages.values())
    yield "computing time of all stages", duration(computed)
    for name, value in summary.spent.items():
        yield f"{name.replace('_', ' ')}, all sessions", f"{value:.3g}"
