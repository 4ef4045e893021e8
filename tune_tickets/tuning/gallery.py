"""Pictures of a finished search: what they show is gathered from summary, store and databases, drawn and saved."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tune_tickets.config import Experiment, load_experiment
from tune_tickets.config.domain import Choice, LogUniform
from tune_tickets.confirmation import Confirmation
from tune_tickets.errors import TicketsError
from tune_tickets.models.inspection import inspect_backbone
from tune_tickets.records import Outcome, Summary, TrialRecord
from tune_tickets.reporting.pictures import Evidence, draw_gallery, save_pictures
from tune_tickets.reporting.pictures.evidence import Axis, Curve, Epochs, Measured
from tune_tickets.tickets.ticket import read_header
from tune_tickets.tracking.naming import flatten
from tune_tickets.trial.store import Store
from tune_tickets.tuning.attacked_examples import examples
from tune_tickets.tuning.importances import importances
from tune_tickets.tuning.mask_pictures import distances, patterns
from tune_tickets.tuning.results import Results
from tune_tickets.tuning.stage_curves import curves

Found = TypeVar("Found")
_SECTIONS = ("method", "retraining", "ablation")


def draw_pictures(
    results: Results, summary: Summary, beside: Sequence[tuple[Results, Summary]] = ()
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Draw and save all pictures: path in the MLflow run -> file, and what went wrong. Never raises.

    A search that has ended is worth more than its pictures.
    """
    again = f"to have them: tune-tickets pictures {shlex.quote(str(results.folder))}"
    try:
        gallery = draw_gallery(gather(results, summary, beside))
        files = save_pictures(gallery.pictures, results.folder, gallery.left_out)
    except KeyboardInterrupt:
        return {}, (f"The pictures were not drawn; {again}",)
    except Exception as error:
        return {}, (f"The pictures could not be drawn ({type(error).__name__}: {error}); all else is there.",)
    return files, tuple(f"The picture {name} could not be drawn ({why})." for name, why in gallery.failed.items())


def gather(results: Results, summary: Summary, beside: Sequence[tuple[Results, Summary]] = ()) -> Evidence:
    """All that is drawn. What cannot be read is left out and named in `missing`.

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
    others: tuple[Measured, ...] = tried("measured", (), lambda: _others(beside))
    own_curves: tuple[Curve, ...] = tried("curves", (), lambda: curves(summary, settings, flat, store))
    other_curves: tuple[Curve, ...] = tried("curves", (), lambda: tuple(_other_curves(beside)))
    confirmation = tried("confirmation", None, lambda: read_confirmation(results.confirmation))
    sources = [(summary, store), *((found, Store(place.store_url)) for place, found in beside)]
    return Evidence(
        measured=(*own, *others),
        selected=summary.selected.trial,
        confirmation=confirmation,
        curves=own_curves + other_curves,
        epochs=epochs(summary),
        distances=tried("distances", (), lambda: distances(summary, settings, store)),
        patterns=tried("patterns", (), lambda: patterns(sources, confirmation, _heads(experiment, results))),
        examples=tried("examples", (), lambda: examples(summary, store, results.ticket)),
        axes=axes(experiment),
        importances=tried("importances", {}, lambda: importances(experiment, summary.config_digest, results.optuna)),
        missing=missing,
    )


def _heads(experiment: Experiment, results: Results) -> int | None:
    """Attention heads per layer: by the best ticket, else by the backbone, if that is at hand."""
    if results.ticket.is_file():
        return read_header(results.ticket).heads
    try:
        return inspect_backbone(experiment.settings.model, experiment.settings.task.max_length).heads
    except Exception:  # a hub out of reach: heads are then drawn as one
        return None


def trial_settings(experiment: Experiment, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """The settings of every trial; of those that no longer fit the schema there are none."""
    found = {}
    for trial in trials:
        try:
            found[trial.id] = experiment.at(trial.params)
        except TicketsError:
            continue
    return found


def flat_settings(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - `Settings`, told apart by method
    """What can be searched, under dotted keys."""
    tree = settings.model_dump(mode="json", include=set(_SECTIONS))
    return flatten(tree)


def measured(summary: Summary, settings: Mapping[str, Mapping[str, Any]], own: bool = True) -> tuple[Measured, ...]:
    """Every trial measured to its end, and every control."""
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
    """What was attacked after every epoch, the winner first."""
    return tuple(
        Epochs(record.model, record.title, tuple(each.metrics() for each in record.epochs), record.left_out)
        for record in summary.epochs
    )


def _on_tasks(outcome: Outcome) -> dict[str, dict[str, float]]:
    return {transfer.name: transfer.outcome.metrics() for transfer in outcome.transfers}


def _others(beside: Sequence[tuple[Results, Summary]]) -> tuple[Measured, ...]:
    found: list[Measured] = []
    for place, summary in beside:
        settings = trial_settings(load_experiment(place.config), summary.trials)
        found += measured(summary, {name: flat_settings(one) for name, one in settings.items()}, own=False)
    return tuple(found)


def _other_curves(beside: Sequence[tuple[Results, Summary]]) -> Iterator[Curve]:
    for place, summary in beside:
        settings = trial_settings(load_experiment(place.config), summary.trials)
        flat = {name: flat_settings(found) for name, found in settings.items()}
        for curve in curves(summary, settings, flat, Store(place.store_url)):
            yield replace(curve, own=False)


def read_confirmation(path: Path) -> Confirmation | None:
    """What `confirm` has left, if it was run."""
    return Confirmation.model_validate(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def axes(experiment: Experiment) -> tuple[Axis, ...]:
    """The searched settings."""
    return tuple(
        Axis(name, isinstance(domain, LogUniform), domain.choice if isinstance(domain, Choice) else None)
        for name, domain in experiment.domains.items()
    )
