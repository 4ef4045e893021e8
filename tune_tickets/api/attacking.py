"""`attack`: a saved model under attack from Python, on rows of its search, of any source, or on texts of one's own."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console

from tune_tickets.api.duel import Duel, Question, load_models, measured, prepare, report_of, threat_models
from tune_tickets.api.progress import AttackLine
from tune_tickets.api.search import Result
from tune_tickets.attacks.rows import AttackRecord
from tune_tickets.config.evaluation import Attack, Evaluation
from tune_tickets.data.sample import given_sample
from tune_tickets.errors import DataError
from tune_tickets.evaluation.under_attack import AttackReport
from tune_tickets.models.classifier import Classifier, ticket_classifier
from tune_tickets.models.loading import LoadedTicket
from tune_tickets.records import AttackFigures
from tune_tickets.reporting.attacked import print_comparisons, print_figures

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
