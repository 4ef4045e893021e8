"""One ticket on several tasks: drawn by the same scores at each task's own ratios, trained and measured there."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tune_tickets.config.training import Ablation
from tune_tickets.engine.stage import StageKey
from tune_tickets.results.records import Outcome, TransferFigures

if TYPE_CHECKING:
    from tune_tickets.trial.pipeline import Pipeline

TicketFor = Callable[["Pipeline", str], StageKey | None]
"""Given a pipeline that keeps its own notes and the name of a task: the ticket for it, None for the whole model."""


def transferred(
    pipeline: "Pipeline", outcome: Outcome, ticket_for: TicketFor, ablation: Ablation | None = None
) -> Outcome:
    """The outcome on the main task together with those on all tasks under `transfer`."""
    found = tuple(_transfer(pipeline, name, ticket_for, ablation) for name in pipeline.settings.transfer)
    return outcome.model_copy(update={"transfers": found})


def _transfer(pipeline: "Pipeline", name: str, ticket_for: TicketFor, ablation: Ablation | None) -> TransferFigures:
    # Stages are noted apart: masks and attacked texts of two tasks must not be taken for one another.
    apart = replace(pipeline, stages=[])
    outcome = _on_task(apart, name).train_and_measure(ticket_for(apart, name), _unheard, ablation)
    return TransferFigures(name=name, outcome=outcome, stages=tuple(apart.stages))


def _on_task(pipeline: "Pipeline", name: str) -> "Pipeline":
    """The same pipeline with the rows and the training of another task."""
    settings, world = pipeline.settings, pipeline.world
    other, rows = settings.transfer[name], settings.attacked_rows(name)
    evaluation = settings.evaluation.model_copy(update={"rows": rows})
    changes = {"task": other.task, "retraining": other.retraining or settings.retraining, "evaluation": evaluation}
    # Twins and report rows are those of the main task.
    world = replace(world, data=world.transfers[name], twins={}, ood_train=None, measured=None)
    return replace(pipeline, settings=settings.model_copy(update=changes), world=world)


def _unheard(record: dict[str, Any]) -> None:
    """Trials are compared by the epochs of the main task while they train."""
