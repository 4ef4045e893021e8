"""The verb `attack`: threat models against a saved model, with figures, attacked texts and a sample to judge."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tune_tickets.attacks.figures import write_groups
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import RESOURCES
from tune_tickets.attacks.threat import ThreatModel, threat_of, with_resources
from tune_tickets.cli.attacked import print_report
from tune_tickets.cli.ground import Ground, find_ground
from tune_tickets.cli.meter import Meter
from tune_tickets.data.sample import Sample, fresh_sample, labels_for, searched_sample
from tune_tickets.errors import ConfigError
from tune_tickets.evaluation.under_attack import AttackReport, Measured, Measurement, measure
from tune_tickets.models.classifier import Classifier, load_classifier
from tune_tickets.records import Comparison
from tune_tickets.report.attacked import say
from tune_tickets.report.compare import paired
from tune_tickets.tuning.results import best_ticket


@dataclass(frozen=True)
class Request:
    """The command line."""

    ticket: str
    overrides: list[str]
    threats: list[str]
    against: str | None
    data: str | None
    column: str | None
    rows: int | None
    seed: int | None
    query_budget: int | None
    show: int
    json_file: Path | None
    out: Path | None


@dataclass(frozen=True)
class Duel:
    """Models on the same rows under the same threat models."""

    targets: list[tuple[Classifier, Sample]]
    threats: list[ThreatModel]
    seed: int
    batch_size: int


def attack(request: Request) -> None:
    """Attack, print, and write what was asked for; Ctrl-C keeps the attacks that are finished."""
    console = Console()
    duel = _prepare(request)
    for path in (request.json_file, request.out):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    sample = duel.targets[0][1]
    say(console, f"{len(sample.rows)} {sample.origin}, column {sample.attacked!r} attacked, seed {duel.seed}")
    finished: list[Measured] = []
    unfinished = _attack_all(duel, finished)
    report = _report(duel, finished, unfinished)
    print_report(report, finished, request.show, console)
    if request.json_file is not None:
        request.json_file.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if request.out is not None and finished:
        write_groups([(_words(one), one.records) for one in finished], request.out)
    if unfinished:
        sys.exit(130)


def _prepare(request: Request) -> Duel:
    """Everything that can be wrong is found here, before the first attack."""
    names = [best_ticket(source) for source in (request.ticket, request.against) if source is not None]
    if len(set(names)) < len(names):
        raise ConfigError(f"--against names {names[0]} itself: name another model")
    first, *others = [load_classifier(name) for name in names]
    ground = find_ground(names[0], first.columns, request.data, request.column, request.overrides)
    settings = ground.settings
    evaluation = settings.evaluation
    budget = request.query_budget if request.query_budget is not None else evaluation.query_budget
    asked = dict.fromkeys(request.threats or evaluation.attacks)
    threats = [_resolved(threat_of(attack, budget)) for attack in asked]
    seed = settings.seed if request.seed is None else request.seed
    sample = _sample(ground, first, request.rows or evaluation.rows, seed)
    targets = [(first, sample)]
    for other in others:
        targets.append((other, sample.relabelled(labels_for(settings.task, other.labels, other.name))))
    for model, _ in targets:
        model.check_texts(len(sample.columns))
    return Duel(targets, threats, seed, evaluation.batch_size)


def _resolved(threat: ThreatModel) -> ThreatModel:
    """With its resources; a masked language model that a search would fit is the one of this machine."""
    named = os.environ.get(RESOURCES["masked lm"].variable) if threat.fits_masked_lm else None
    return with_resources(threat, resolve("masked lm").identity if named else None)


def _sample(ground: Ground, model: Classifier, size: int, seed: int) -> Sample:
    task = ground.settings.task
    labels = labels_for(task, model.labels, model.name)
    if ground.searched:
        return searched_sample(task, ground.settings.seed, size, seed).relabelled(labels)
    return fresh_sample(task, labels, size, seed)


def _attack_all(duel: Duel, finished: list[Measured]) -> tuple[str, ...]:
    """Fill `finished`; what Ctrl-C cut off is named, with how far it had come."""
    order = [(threat, model, sample) for threat in duel.threats for model, sample in duel.targets]
    meter: Meter | None = None
    try:
        for threat, model, sample in order:
            with Meter(_title(threat, model), len(sample.rows)) as meter:
                finished.append(measure(model, sample, threat, duel.seed, duel.batch_size, meter))
    except KeyboardInterrupt:
        left = order[len(finished) :]
        reached = [meter.done if meter is not None else 0] + [0] * len(left)
        return tuple(
            f"{_title(threat, model)}: {done} of {len(sample.rows)} rows"
            for (threat, model, sample), done in zip(left, reached, strict=False)
        )
    return ()


def _title(threat: ThreatModel, model: Classifier) -> str:
    return f"{threat.name} on {model.name}"


def _report(duel: Duel, finished: list[Measured], unfinished: tuple[str, ...]) -> AttackReport:
    sample = duel.targets[0][1]
    measurements = tuple(one.measurement for one in finished)
    return AttackReport(
        data=sample.origin,
        rows=len(sample.rows),
        columns=sample.columns,
        attacked=sample.attacked,
        seed=duel.seed,
        measurements=measurements,
        comparisons=_compare(measurements, *(model.name for model, _ in duel.targets)),
        complete=not unfinished,
        unfinished=unfinished,
    )


def _compare(measurements: tuple[Measurement, ...], first: str, second: str | None = None) -> tuple[Comparison, ...]:
    if second is None:
        return ()
    ours, theirs = ([one.figures for one in measurements if one.model == model] for model in (first, second))
    return paired(second, ours, theirs)


def _words(attacked: Measured) -> dict[str, str]:
    measured = attacked.measurement
    return {
        "model": measured.model,
        "threat": measured.figures.threat,
        "fingerprint": measured.figures.fingerprint,
    }
