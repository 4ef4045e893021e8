"""`attack`: a saved model under attack from Python, on rows of its search, of any source, or on texts of one's own."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from tune_tickets.api.search import AttackLine, Result
from tune_tickets.attacks.records import AttackRecord, AttackReport, Measured, Measurement
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import RESOURCES
from tune_tickets.attacks.run import measure
from tune_tickets.attacks.threat import ThreatModel, threat_of, with_resources
from tune_tickets.config import Settings, load_experiment
from tune_tickets.config.evaluation import Attack, Evaluation
from tune_tickets.config.source import Source, apply_override, validate
from tune_tickets.data.sample import Sample, fresh_sample, given_sample, labels_for, searched_sample
from tune_tickets.errors import ConfigError, DataError
from tune_tickets.models.classifier import Classifier, load_classifier, ticket_classifier
from tune_tickets.models.loading import LoadedTicket
from tune_tickets.reports.attacked import print_comparisons, print_figures
from tune_tickets.reports.comparisons import paired
from tune_tickets.results.folder import best_ticket, experiment_beside, ticket_name
from tune_tickets.results.records import AttackFigures, Comparison

_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Ground:
    """The settings that say which rows, and whether they are a search's select rows."""

    settings: Settings
    searched: bool


def find_ground(
    ticket: str, columns: tuple[str, ...] | None, data: str | None, column: str | None, overrides: list[str]
) -> Ground:
    """The experiment that `data` names or that lies beside the ticket; else a task of its own around the source."""
    for override in overrides:
        if not override.startswith("task."):
            raise ConfigError(f"override '{override}': only keys of the task can be set here, such as task.label=stars")
    experiment = Path(data) if data is not None and data.endswith(_YAML) else None
    if data is None:
        experiment = experiment_beside(ticket)
    if experiment is not None:
        present = load_experiment(experiment, overrides).settings.task.columns
        chosen = [] if column is None else [_column_override(column, present)]
        settings = load_experiment(experiment, [*overrides, *chosen]).settings
        return Ground(_on_own_task(settings, ticket) if data is None else settings, searched=True)
    return Ground(_around(data, columns or ("text",), column, overrides), searched=False)


def _on_own_task(settings: Settings, ticket: str) -> Settings:
    """A ticket that was saved for a further task is attacked on the rows of that task."""
    own = [name for name in settings.transfer if Path(ticket).name == ticket_name(name)]
    return settings.model_copy(update={"task": settings.transfer[own[0]].task}) if own else settings


def _around(data: str | None, columns: tuple[str, ...], column: str | None, overrides: list[str]) -> Settings:
    task: dict[str, Any] = {"text": columns[0] if len(columns) == 1 else list(columns)}
    if data is not None:
        task["source"] = data
    document: dict[str, Any] = {"task": task}
    source = Source("command line")
    for override in overrides:
        apply_override(document, override, source)
    if column is not None:
        text = task["text"]
        present = (text,) if isinstance(text, str) else tuple(text)
        apply_override(document, _column_override(column, present), source)
    return validate(Settings, document, source)


def _column_override(column: str, present: tuple[str, ...]) -> str:
    """A single text column goes by the name given; of a pair one column is chosen."""
    key = "task.text" if len(present) == 1 and column not in present else "task.attacked"
    return f"{key}={json.dumps(column)}"


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


Model = str | Path | Result | LoadedTicket
Text = str | tuple[str, str]


@dataclass(frozen=True, repr=False)
class Attacked:
    """What attacks have found, by threat model; figures and records are those of the first model."""

    report: AttackReport
    figures: dict[str, AttackFigures]
    records: dict[str, list[AttackRecord]]
    """Every attacked text before and after."""

    def table(self, width: int = 120) -> str:
        """All figures, and the comparison of two models, as text."""
        text = StringIO()
        console = Console(file=text, width=width, force_jupyter=False)
        print_figures(self.report.measurements, console)
        if self.report.comparisons:
            print_comparisons(self.report.comparisons, console)
        return text.getvalue()

    def __repr__(self) -> str:
        """Clean accuracy and accuracy under attack in a line."""
        shown = (f"{name}: {one.clean:.1f} -> {one.accuracy_under_attack:.1f}%" for name, one in self.figures.items())
        return f"Attacked({self.report.rows} {self.report.data}; {', '.join(shown)})"


def attack(
    ticket: Model,
    texts: Sequence[Text] | None = None,
    labels: Sequence[str] | None = None,
    *,
    data: str | Path | None = None,
    threat: str | Attack | Sequence[str | Attack] = (),
    against: Model | None = None,
    column: str | None = None,
    rows: int | None = None,
    seed: int | None = None,
    query_budget: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
) -> Attacked:
    """Attack a ticket or any text classifier of transformers, as `tune-tickets attack` does.

    Rows are `texts` with their `labels`, or come from `data` (a file, 'bundled/imdb', a hub id, an experiment YAML);
    without either they are the select rows of the search that left the ticket.

    >>> found = attack(result, threat="textfooler/minilm", rows=100)
    >>> found.figures["textfooler/minilm"].accuracy_under_attack
    >>> attack(result, ["a fine film"], ["positive"]).records
    """
    threats = [threat] if isinstance(threat, str | Attack) else list(threat)
    first = _model(ticket, "the loaded ticket")
    other = None if against is None else _model(against, "the other loaded ticket")
    if texts is None:
        if labels is not None:
            raise DataError("labels were given without texts: hand over both, or name the rows with data")
        source = None if data is None else str(data)
        duel = prepare(Question(first, overrides, threats, other, source, column, rows, seed, query_budget))
    else:
        if data is not None or labels is None or len(labels) != len(texts):
            raise DataError("texts need a label each, by name, and stand in the place of data")
        duel = _on_texts(load_models(first, other), texts, labels, threats, column, rows, seed or 0, query_budget)
    finished = list(measured(duel, AttackLine if progress else _silent))
    ours = [one for one in finished if one.measurement.model == duel.targets[0][0].name]
    return Attacked(
        report_of(duel, finished),
        {one.measurement.figures.threat: one.measurement.figures for one in ours},
        {one.measurement.figures.threat: one.records for one in ours},
    )


def _on_texts(
    models: list[Classifier],
    texts: Sequence[Text],
    labels: Sequence[str],
    threats: Sequence[str | Attack],
    column: str | None,
    rows: int | None,
    seed: int,
    budget: int | None,
) -> Duel:
    first = models[0]
    pairs = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    first.check_texts(len(pairs[0]) if pairs else 1)
    sample = given_sample(pairs, labels, first.labels, first.columns, column, rows, seed)
    targets = [(first, sample), *((other, sample.relabelled(_reordered(first, other))) for other in models[1:])]
    return Duel(targets, threat_models(threats, budget, Evaluation()), seed, Evaluation().batch_size)


def _reordered(first: Classifier, other: Classifier) -> tuple[str, ...]:
    """The labels of the texts in the class order of the other model."""
    by_name = {label.casefold(): label for label in first.labels}
    if set(by_name) != {label.casefold() for label in other.labels}:
        raise DataError(f"{first.name} has the labels {first.labels}, {other.name} {other.labels}: they do not match")
    return tuple(by_name[label.casefold()] for label in other.labels)


def _model(model: Model, name: str) -> str | Classifier:
    if isinstance(model, LoadedTicket):
        return ticket_classifier(model, name)
    return str(model.winner() if isinstance(model, Result) else model)


def _silent(title: str, rows: int) -> AbstractContextManager[Callable[[int, int], None]]:
    return nullcontext(lambda done, total: None)
