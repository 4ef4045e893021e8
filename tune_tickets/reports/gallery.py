"""Pictures and the report page of a search: gather everything to draw, draw it, write the page."""

import logging
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from tune_tickets.attacks.records import AttackRecord, Piece, pieces
from tune_tickets.config import Experiment, load_experiment
from tune_tickets.config.domain import Choice, LogUniform
from tune_tickets.engine.store import Store
from tune_tickets.errors import TicketsError
from tune_tickets.models.backbone import empty_network
from tune_tickets.models.families import family_of
from tune_tickets.models.families.base import Family
from tune_tickets.reports.artifacts import attacked_records
from tune_tickets.reports.mask_pictures import curves, distances, patterns
from tune_tickets.reports.page.source import read_confirmation
from tune_tickets.reports.page.writing import ReportFiles, write_report
from tune_tickets.reports.pictures import Evidence, draw_gallery, save_pictures
from tune_tickets.reports.pictures.evidence import Axis, Curve, Epochs, Example, Measured
from tune_tickets.reports.pictures.style import saved_pictures
from tune_tickets.results.folder import Results
from tune_tickets.results.objective import names
from tune_tickets.results.records import Outcome, StageRecord, Summary, TrialRecord
from tune_tickets.tickets.ticket import read_header
from tune_tickets.tracking.naming import flatten
from tune_tickets.tracking.place import sqlite_uri

FEWEST = 4
"""With fewer completed trials the importances mean nothing."""


def importances(experiment: Experiment, digest: str, database: Path) -> dict[str, dict[str, float]]:
    """Return the importance of each setting (0 to 1) by value of the objective; only settings that all trials have.

    Raises:
        TicketsError: there is nothing to compute them from, and why.
    """
    if not database.is_file():
        raise TicketsError(f"there is no {database.name}")
    storage = optuna.storages.RDBStorage(sqlite_uri(database))
    try:
        study = optuna.load_study(study_name=f"{experiment.settings.name}-{digest[:12]}", storage=storage)
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(done) < FEWEST:
            raise TicketsError(f"only {len(done)} trials are complete, fewer than {FEWEST}")
        shared = set.intersection(*(set(trial.params) for trial in done))
        varied = sorted(name for name in shared if len({repr(trial.params[name]) for trial in done}) > 1)
        if not varied:
            raise TicketsError("no setting that all trials have differs between them")
        found = {}
        for index, name in enumerate(names(experiment.settings.objective)):
            if len({trial.values[index] for trial in done}) > 1:
                found[name.removesuffix("_value")] = _shares(study, varied, index)
        if not found:
            raise TicketsError("all completed trials have the same objective")
        return found
    finally:
        storage.engine.dispose()


def _shares(study: optuna.Study, settings: list[str], index: int) -> dict[str, float]:
    def value(trial: FrozenTrial) -> float:
        return float(trial.values[index])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # experimental features, which we pin
        return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), params=settings, target=value)


SUCCESSES, FAILURES = 3, 1
"""Texts per threat model."""
MOST = 8


def examples(summary: Summary, store: Store, ticket: Path) -> tuple[Example, ...]:
    """Return, per threat model, the first rows with a successful attack and one with a failed attack."""
    model, stages = _model(summary)
    labels = read_header(ticket).labels if ticket.is_file() else ()
    found = [
        _example(model, threat, record, labels)
        for threat, records in attacked_records(stages, store).items()
        for record in _chosen(records)
    ]
    return tuple(found[:MOST])


def _model(summary: Summary) -> tuple[str, tuple[StageRecord, ...]]:
    for trial in summary.trials:
        if trial.id == summary.selected.trial:
            return trial.id, trial.stages
    for control in summary.controls:
        return control.name, control.stages
    return "", ()


def _chosen(records: Sequence[AttackRecord]) -> list[AttackRecord]:
    changed = sorted((record for record in records if record.texts != record.perturbed_texts), key=lambda r: r.index)
    successful = [record for record in changed if record.status == "successful"]
    failed = [record for record in changed if record.status == "failed"]
    return successful[:SUCCESSES] + failed[:FAILURES]


def _example(model: str, threat: str, record: AttackRecord, labels: Sequence[str]) -> Example:
    columns = [pieces(before, after) for before, after in zip(record.texts, record.perturbed_texts, strict=True)]
    joined: list[Piece] = []
    for number, column in enumerate(columns):
        joined += [Piece(" | ", " | ")] * (number > 0) + column

    def name(label: int) -> str:
        return labels[label] if label < len(labels) else f"label {label}"

    return Example(
        model=model,
        threat=threat,
        row=record.index,
        successful=record.status == "successful",
        before=name(record.prediction),
        after=name(record.perturbed_prediction),
        pieces=tuple((piece.old, piece.new) for piece in joined),
    )


Found = TypeVar("Found")
_SECTIONS = ("method", "retraining", "ablation")


def draw_pictures(
    results: Results, summary: Summary, beside: Sequence[tuple[Results, Summary]] = ()
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Draw and save all pictures. Never raises, because a search that has ended is worth more than its pictures.

    Returns:
        Path in the MLflow run -> file, and what went wrong.
    """
    again = f"to draw them: tune-tickets pictures {shlex.quote(str(results.folder))}"
    try:
        gallery = draw_gallery(gather(results, summary, beside))
        files = save_pictures(gallery.pictures, results.folder, gallery.left_out)
    except KeyboardInterrupt:
        return {}, (f"The pictures were not drawn; {again}",)
    except Exception as error:
        return {}, (f"The pictures could not be drawn ({type(error).__name__}: {error}). Everything else is complete.",)
    return files, tuple(f"The picture {name} could not be drawn ({why})." for name, why in gallery.failed.items())


def gather(results: Results, summary: Summary, beside: Sequence[tuple[Results, Summary]] = ()) -> Evidence:
    """Read everything that is drawn. What cannot be read is left out and named in `missing`.

    `beside` are results of the same experiment with other seeds: means and bands are then over seeds.
    """
    experiment, store = load_experiment(results.config), Store(results.store_url)
    settings = trial_settings(experiment, summary.trials)
    missing: dict[str, str] = {}

    def tried(name: str, otherwise: Found, read: Callable[[], Found]) -> Found:
        try:
            return read()
        except TicketsError as error:
            missing[name] = str(error)
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
        return otherwise

    flat = {name: flat_settings(found) for name, found in settings.items()}
    own = measured(summary, flat)
    nothing: tuple[tuple[Measured, ...], tuple[Curve, ...]] = ((), ())
    others, other_curves = tried("measured", nothing, lambda: _beside(beside))
    own_curves: tuple[Curve, ...] = tried("curves", (), lambda: curves(summary, settings, flat, store))
    confirmation = tried("confirmation", None, lambda: read_confirmation(results.confirmation))
    sources = [(summary, store), *((found, Store(place.store_url)) for place, found in beside)]
    return Evidence(
        measured=(*own, *others),
        selected=summary.selected.winner,
        confirmation=confirmation,
        curves=own_curves + other_curves,
        epochs=epochs(summary),
        distances=tried("distances", (), lambda: distances(summary, settings, store)),
        patterns=tried("patterns", (), lambda: patterns(sources, confirmation, *_heads(experiment, results))),
        examples=tried("examples", (), lambda: examples(summary, store, results.ticket)),
        axes=axes(experiment),
        importances=tried("importances", {}, lambda: importances(experiment, summary.config_digest, results.optuna)),
        missing=missing,
    )


def _heads(experiment: Experiment, results: Results) -> tuple[int | None, Family]:
    """Attention heads per layer and the model family: by the best ticket, else by the backbone, if it can be read."""
    if results.ticket.is_file():
        header = read_header(results.ticket)
        return header.heads, family_of(header.config)
    try:
        network, family = empty_network(experiment.settings.model)
        return family.anatomy(network).heads, family
    except Exception:  # the hub cannot be reached: all heads of a layer are drawn as one
        return None, family_of({"model_type": "bert"})


def trial_settings(experiment: Experiment, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """Return the settings of every trial. Those that no longer fit the schema are left out."""
    found = {}
    for trial in trials:
        try:
            found[trial.id] = experiment.at(trial.params)
        except TicketsError:
            continue
    return found


def flat_settings(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - `Settings`, told apart by method
    """Return the settings that can be searched, under dotted keys."""
    tree = settings.model_dump(mode="json", include=set(_SECTIONS))
    return flatten(tree)


def measured(summary: Summary, settings: Mapping[str, Mapping[str, Any]], own: bool = True) -> tuple[Measured, ...]:
    """Return every complete trial and every control."""
    trials = [
        Measured(
            name=trial.id,
            kind="trial",
            title=trial.title or trial.method,
            metrics=trial.outcome.metrics(),
            params=trial.params,
            settings=settings.get(trial.id, {}),
            seed=summary.seed,
            feasible=trial.feasible is not False,
            tasks=_on_tasks(trial.outcome),
            own=own,
        )
        for trial in summary.trials
        if trial.status == "complete" and trial.outcome is not None
    ]
    controls = [
        Measured(
            name=control.name,
            kind=control.kind,
            title=control.title or control.kind,
            metrics=control.outcome.metrics(),
            seed=summary.seed,
            tasks=_on_tasks(control.outcome),
            own=own,
        )
        for control in summary.controls
    ]
    return (*trials, *controls)


def epochs(summary: Summary) -> tuple[Epochs, ...]:
    """Return the models that were attacked after every epoch, the winner first."""
    return tuple(
        Epochs(record.model, record.title, tuple(each.metrics() for each in record.epochs), record.left_out)
        for record in summary.epochs
    )


def _on_tasks(outcome: Outcome) -> dict[str, dict[str, float]]:
    return {transfer.name: transfer.outcome.metrics() for transfer in outcome.transfers}


def _beside(found: Sequence[tuple[Results, Summary]]) -> tuple[tuple[Measured, ...], tuple[Curve, ...]]:
    """Models and curves of the same experiment with other seeds."""
    models: list[Measured] = []
    lines: list[Curve] = []
    for place, summary in found:
        settings = trial_settings(load_experiment(place.config), summary.trials)
        flat = {name: flat_settings(one) for name, one in settings.items()}
        models += measured(summary, flat, own=False)
        lines += (replace(curve, own=False) for curve in curves(summary, settings, flat, Store(place.store_url)))
    return tuple(models), tuple(lines)


def axes(experiment: Experiment) -> tuple[Axis, ...]:
    """Return the searched settings."""
    return tuple(
        Axis(name, isinstance(domain, LogUniform), domain.choice if isinstance(domain, Choice) else None)
        for name, domain in experiment.domains.items()
    )


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeftReport:
    """`files` to attach, by name; `problems` says why some are missing."""

    files: dict[str, Path] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def make_report(folder: Path) -> ReportFiles:
    """Write the report of a results folder with the pictures in it."""
    return write_report(folder, saved_pictures(folder))


def leave_report(folder: Path) -> LeftReport:
    """Like `make_report`, at the end of a search: errors are returned, not raised."""
    try:
        found = make_report(folder)
    except Exception as error:
        logger.debug("no report", exc_info=True)
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        return LeftReport(problems=(f"The report could not be written ({reason}): tune-tickets report {folder}",))
    return LeftReport({found.html.name: found.html, found.markdown.name: found.markdown})
