"""`attack` attacks a saved model from Python: on rows of its search, on rows of any source, or on given texts.

The verb `attack` of the command line shares everything below `Question`.
"""

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
    """The settings that define the rows to attack, and whether these are the select rows of a search."""

    settings: Settings
    searched: bool


def find_ground(
    ticket: str, columns: tuple[str, ...] | None, data: str | None, column: str | None, overrides: list[str]
) -> Ground:
    """Find the rows to attack.

    They come from the experiment YAML in `data`, or from any other source in `data`. If `data` is None, they come from
    the experiment in the results folder of the ticket; if there is none, from the default task.

    Raises:
        ConfigError: An override is not about the task, or the settings are not valid.
    """
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
    """Use the rows of a further task for a ticket that was saved for that task."""
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
    """Rename the only text column, or choose the attacked one of a pair."""
    key = "task.text" if len(present) == 1 and column not in present else "task.attacked"
    return f"{key}={json.dumps(column)}"


Meter = Callable[[str, int], AbstractContextManager[Callable[[int, int], None]]]
"""Shows progress: created with the title and the number of rows of an attack, called with (done, total)."""


@dataclass(frozen=True)
class Question:
    """What to attack, on which rows and how. None means: as in the experiment of these rows."""

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
    """One or two models on the same rows under the same threat models."""

    targets: list[tuple[Classifier, Sample]]
    threats: list[ThreatModel]
    seed: int
    batch_size: int

    @property
    def order(self) -> list[tuple[ThreatModel, Classifier, Sample]]:
        """All attacks, in the order in which they run."""
        return [(threat, model, sample) for threat in self.threats for model, sample in self.targets]


def prepare(question: Question) -> Duel:
    """Load models, rows and threat models, so that every error is raised before the first attack.

    Raises:
        ConfigError: The models are the same, or an override or a threat model is not valid.
        DataError: The rows or their labels do not fit the model.
        ResourceError: A model, data or a resource of an attack is missing.
    """
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
    """Load the model, and the one to compare it with if there is one."""
    sources = [ticket] if against is None else [ticket, against]
    named = [best_ticket(source) if isinstance(source, str) else source for source in sources]
    names = [source if isinstance(source, str) else source.name for source in named]
    if len(set(names)) < len(names):
        raise ConfigError(f"--against names {names[0]} itself: name a different model")
    return [load_classifier(source) if isinstance(source, str) else source for source in named]


def threat_models(asked: Sequence[str | Attack], budget: int | None, evaluation: Evaluation) -> list[ThreatModel]:
    """Return the requested threat models, each once, with their resources; if none, those of the experiment."""
    budget = budget if budget is not None else evaluation.query_budget
    return [_resolved(threat_of(attack, budget)) for attack in dict.fromkeys(asked or evaluation.attacks)]


def _resolved(threat: ThreatModel) -> ThreatModel:
    """Add the resources. For a masked language model that a search would fit, use the one set on this machine."""
    named = os.environ.get(RESOURCES["masked lm"].variable) if threat.fits_masked_lm else None
    return with_resources(threat, resolve("masked lm").identity if named else None)


def _sample(ground: Ground, model: Classifier, size: int, seed: int) -> Sample:
    task = ground.settings.task
    labels = labels_for(task, model.labels, model.name)
    if ground.searched:
        return searched_sample(task, ground.settings.seed, size, seed).relabelled(labels)
    return fresh_sample(task, labels, size, seed)


def measured(duel: Duel, meter: Meter) -> Iterator[Measured]:
    """Run the attacks and yield each result as soon as it is finished."""
    for threat, model, sample in duel.order:
        with meter(title(threat, model), len(sample.rows)) as progress:
            found = measure(model, sample, threat, duel.seed, duel.batch_size, progress)
        yield found


def title(threat: ThreatModel, model: Classifier) -> str:
    """Return the title of an attack."""
    return f"{threat.name} on {model.name}"


def report_of(duel: Duel, finished: Sequence[Measured], unfinished: tuple[str, ...] = ()) -> AttackReport:
    """Return the metrics of all finished attacks, and the names of unfinished ones."""
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
    """The results of `attack`, by threat model. Metrics and records are those of the first model."""

    report: AttackReport
    """Everything that was measured, of both models; the same as `tune-tickets attack --json` writes."""
    figures: dict[str, AttackFigures]
    """Metrics such as `clean` and `accuracy_under_attack`, in percent."""
    records: dict[str, list[AttackRecord]]
    """Every attacked text before and after the attack."""

    def table(self, width: int = 120) -> str:
        """Return a table of all metrics, and of the comparison of two models.

        Args:
            width: Width of the table in characters.
        """
        text = StringIO()
        console = Console(file=text, width=width, force_jupyter=False)
        print_figures(self.report.measurements, console)
        if self.report.comparisons:
            print_comparisons(self.report.comparisons, console)
        return text.getvalue()

    def __repr__(self) -> str:
        """Return clean accuracy and accuracy under attack in one line."""
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

    Args:
        ticket: A ticket file, a results folder, a transformers folder, a hub id, a `Result` or a `LoadedTicket`.
        texts: Texts to attack, or pairs of texts. If None, rows come from `data`.
        labels: The label of each text, by name.
        data: Where rows come from: a file, 'bundled/imdb', a hub id, or an experiment YAML whose select rows are
            attacked. If `texts` and `data` are None, the select rows of the search that wrote the ticket are attacked.
        threat: One or more threat models, by name or as `Attack`. If empty, those of the experiment.
        against: A second model, attacked on the same rows and compared with an exact paired test.
        column: The text column to attack; of a pair, the other one is locked.
        rows: How many rows to attack. If None, as in the experiment.
        seed: Seed of the sample and the attacks. If None, as in the experiment.
        query_budget: Queries per row before an attack gives up. If None, as in the experiment.
        overrides: Settings of the task, such as `["task.label=stars"]`.
        progress: Whether to show one line of progress on stderr.

    Returns:
        Metrics and attacked texts by threat model.

    Raises:
        ConfigError: An argument, an override or a threat model is not valid.
        DataError: Texts and labels do not match each other or the model, or rows cannot be used.
        ResourceError: A model, data or a resource of an attack is missing.

    >>> found = attack(result, threat="textfooler/minilm", rows=100)
    >>> found.figures["textfooler/minilm"].accuracy_under_attack
    >>> attack(result, ["a fine film"], ["positive"]).records
    """
    threats = [threat] if isinstance(threat, str | Attack) else list(threat)
    first = _model(ticket, "the loaded ticket")
    other = None if against is None else _model(against, "the other loaded ticket")
    if texts is None:
        if labels is not None:
            raise DataError("labels were given without texts: pass both, or choose the rows with data")
        source = None if data is None else str(data)
        duel = prepare(Question(first, overrides, threats, other, source, column, rows, seed, query_budget))
    else:
        if data is not None or labels is None or len(labels) != len(texts):
            raise DataError("each text needs a label, by name, and texts cannot be combined with data")
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
    """Return the labels of the texts in the class order of the other model."""
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
