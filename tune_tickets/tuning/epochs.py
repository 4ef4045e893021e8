"""The winner and the dense control after every epoch of their training, under real attacks (RobustT Fig. 4)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tune_tickets.config import Settings
from tune_tickets.errors import TicketsError
from tune_tickets.records import ControlRecord, EpochFigures, EpochsRecord, Outcome, TrialRecord, headline
from tune_tickets.reporting.progress import Event, Note, TrialFinished, TrialStarted
from tune_tickets.space import reference
from tune_tickets.trial.client import BrokerRunner
from tune_tickets.trial.pipeline import Pipeline
from tune_tickets.trial.store import Store
from tune_tickets.trial.trainable import TrialContext
from tune_tickets.tuning.closing import trained_by
from tune_tickets.tuning.controls import measured_at_once, reading

AS_IT_IS = "the ticket is taken as pruning leaves it: it was not trained in epochs of its own"
LOST = "the store no longer tells how it was trained"


@dataclass(frozen=True)
class _Model:
    name: str
    title: str
    settings: Settings
    outcome: Outcome


def epoch_records(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    winner: TrialRecord | None,
    controls: Sequence[ControlRecord],
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> list[EpochsRecord]:
    """Both models, each trained once more by the stage that trained it. One that fails is left out and said to."""
    experiment = context.experiment
    models = []
    if winner is not None and winner.outcome is not None:
        models.append(_Model(winner.id, winner.title, experiment.at(winner.params), winner.outcome))
    for control in controls:
        if control.kind == "dense":
            models.append(_Model(control.name, control.title, reference(experiment), control.outcome))
    jobs = [partial(_epochs, context, broker, model, emit, ended) for model in models]
    return measured_at_once(jobs, experiment.settings.search.concurrency)


def _epochs(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    model: _Model,
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> EpochsRecord | None:
    stage = Store(context.store_url).recipe(trained_by(model.outcome))
    if stage is None or "retraining" not in stage.inputs:
        reason = LOST if stage is None else AS_IT_IS
        emit(Note(f"{model.name} was not attacked epoch by epoch: {reason}"))
        return EpochsRecord(model=model.name, title=model.title, left_out=reason)
    if ended():  # what earlier sessions have measured is there all the same
        pipeline = reading(context, model.settings)
        with suppress(TicketsError):
            return _record(model, pipeline.after_every_epoch(stage, model.outcome), pipeline)
        return None
    name = f"epochs of {model.name}"
    emit(TrialStarted(name, {}))
    pipeline = Pipeline(model.settings, context.world, BrokerRunner(broker, context.store_url, name, ended))
    try:
        found = pipeline.after_every_epoch(stage, model.outcome)
    except Exception as error:  # hours of search are not given up for a picture
        emit(TrialFinished(name, "interrupted" if ended() else "failed", None, {}, str(error)))
        return None
    emit(TrialFinished(name, "complete", None, headline(found[-1].metrics())))
    return _record(model, found, pipeline)


def _record(model: _Model, found: tuple[EpochFigures, ...], pipeline: Pipeline) -> EpochsRecord:
    return EpochsRecord(model=model.name, title=model.title, epochs=found, stages=tuple(pipeline.stages))
