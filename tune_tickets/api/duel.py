"""Threat models against one saved model, or two on the same rows: shared by the verb `attack` and the notebook's."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tune_tickets.api.ground import Ground, find_ground
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import RESOURCES
from tune_tickets.attacks.threat import ThreatModel, threat_of, with_resources
from tune_tickets.config.evaluation import Attack, Evaluation
from tune_tickets.data.sample import Sample, fresh_sample, labels_for, searched_sample
from tune_tickets.errors import ConfigError
from tune_tickets.evaluation.under_attack import AttackReport, Measured, Measurement, measure
from tune_tickets.models.classifier import Classifier, load_classifier
from tune_tickets.records import Comparison
from tune_tickets.reporting.compare import paired
from tune_tickets.tuning.results import best_ticket

Meter = Callable[[str, int], AbstractContextManager[Callable[[int, int], None]]]
"""Made with the title and the rows of an attack; called with (rows done, rows in all) while it lasts."""


@dataclass(frozen=True)
class Question:
    """What is to be attacked, on which rows and how. None takes what the experiment of those rows says."""

    ticket: str | Classifier
    overrides: Sequence[str] = ()
    threats: Sequence[str | Attack] = ()
    against: str | Classifier | None = None
    data: str | None = None
    column: str | None = None
    rows: int | None = None
    seed: int | None = None
    query_budget: int | None = None


@dataclass(frozen=True)
class Duel:
    """Models on the same rows under the same threat models."""

    targets: list[tuple[Classifier, Sample]]
    threats: list[ThreatModel]
    seed: int
    batch_size: int

    @property
    def order(self) -> list[tuple[ThreatModel, Classifier, Sample]]:
        """All attacks, one after the other."""
        return [(threat, model, sample) for threat in self.threats for model, sample in self.targets]


def prepare(question: Question) -> Duel:
    """Everything that can be wrong is found here, before the first attack."""
    first, *others = models = load_models(question.ticket, question.against)
    ground = find_ground(first.name, first.columns, question.data, question.column, list(question.overrides))
    settings = ground.settings
    threats = threat_models(question.threats, question.query_budget, settings.evaluation)
    seed = settings.seed if question.seed is None else question.seed
    sample = _sample(ground, first, question.rows or settings.evaluation.rows, seed)
    targets = [(first, sample)]
    for other in others:
        targets.append((other, sample.relabelled(labels_for(settings.task, other.labels, other.name))))
    for model in models:
        model.check_texts(len(sample.columns))
    return Duel(targets, threats, seed, settings.evaluation.batch_size)


def load_models(ticket: str | Classifier, against: str | Classifier | None = None) -> list[Classifier]:
    """The model, and the one it is compared with."""
    sources = [ticket] if against is None else [ticket, against]
    named = [best_ticket(source) if isinstance(source, str) else source for source in sources]
    names = [source if isinstance(source, str) else source.name for source in named]
    if len(set(names)) < len(names):
        raise ConfigError(f"--against names {names[0]} itself: name another model")
    return [load_classifier(source) if isinstance(source, str) else source for source in named]


def threat_models(asked: Sequence[str | Attack], budget: int | None, evaluation: Evaluation) -> list[ThreatModel]:
    """The threat models asked for, each once, else those of the experiment; with their resources."""
    budget = budget if budget is not None else evaluation.query_budget
    return [_resolved(threat_of(attack, budget)) for attack in dict.fromkeys(asked or evaluation.attacks)]


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


def measured(duel: Duel, meter: Meter) -> Iterator[Measured]:
    """Attack after attack, each handed over when it is finished."""
    for threat, model, sample in duel.order:
        with meter(title(threat, model), len(sample.rows)) as progress:
            found = measure(model, sample, threat, duel.seed, duel.batch_size, progress)
        yield found


def title(threat: ThreatModel, model: Classifier) -> str:
    """What an attack is called."""
    return f"{threat.name} on {model.name}"


def report_of(duel: Duel, finished: Sequence[Measured], unfinished: tuple[str, ...] = ()) -> AttackReport:
    """The figures of all finished attacks; `unfinished` ones are only named."""
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
