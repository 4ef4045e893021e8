"""Controls: the dense model, random tickets, and attacks after every epoch of training (RobustT Fig. 4)."""

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.title import title
from tune_tickets.engine.client import BrokerRunner
from tune_tickets.engine.runner import StoreReader, unheard
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError, TicketsError
from tune_tickets.methods.base import Flow
from tune_tickets.methods.finetune import FineTune
from tune_tickets.methods.random import RandomTicket
from tune_tickets.methods.stages import Retrain
from tune_tickets.reports.artifacts import stored_mask
from tune_tickets.results.metrics import headline
from tune_tickets.results.objective import front, ranked
from tune_tickets.results.records import (
    ControlRecord,
    EpochFigures,
    EpochsRecord,
    Outcome,
    TrialRecord,
    cost_of,
)
from tune_tickets.search.closing import trained_by
from tune_tickets.search.progress import Event, Note, TrialFinished, TrialStarted
from tune_tickets.search.space import reference
from tune_tickets.search.trainable import TrialContext
from tune_tickets.tickets.mask import StructuredMask

_LOOK_SECONDS = 0.5
Found = TypeVar("Found")
Measured = TypeVar("Measured", Outcome, tuple[EpochFigures, ...])


class DenseControl:
    """Measures the dense control while the trials run. They wait for the same stages when they are judged."""

    def __init__(self, context: TrialContext, broker: Any, emit: Callable[[Event], None]) -> None:  # noqa: ANN401
        self._context = context
        self._emit = emit
        self._runner = BrokerRunner(broker, context.store_url, "dense")
        self._record: ControlRecord | None = None
        self._thread = threading.Thread(target=self._measure, name="dense-control", daemon=True)
        self._wanted = context.experiment.settings.controls.dense
        if self._wanted:
            self._thread.start()

    def result(self, ended: Callable[[], bool]) -> ControlRecord | None:
        """Return the control, or None if it is switched off or failed. Waits for it until the search has `ended`.

        After that, a control that earlier sessions have measured is still read from the store.
        """
        while self._wanted and self._thread.is_alive() and not ended():
            self._thread.join(timeout=_LOOK_SECONDS)
        if self._record is None and self._wanted:
            pipeline = _reading(self._context, reference(self._context.experiment))
            with suppress(TicketsError):
                self._record = control_record("dense", 0, pipeline.dense_control(unheard), pipeline)
        return self._record

    def close(self) -> None:
        """Stop waiting: no thread may call Ray after the session has ended."""
        self._runner.stop()
        if self._wanted:
            self._thread.join(timeout=10.0)

    def _measure(self) -> None:
        self._emit(TrialStarted("dense", {}))
        try:
            pipeline = Flow(reference(self._context.experiment), self._context.world, self._runner)
            outcome = pipeline.dense_control(unheard)
            self._record = control_record("dense", 0, outcome, pipeline)
            self._emit(TrialFinished("dense", "complete", None, headline(outcome.metrics())))
        except Exception as error:  # the trials need it and fail too, with the same reason
            if not self._runner.stopped:
                self._emit(TrialFinished("dense", "failed", None, {}, str(error)))


def _reading(context: TrialContext, settings: Settings) -> Flow:
    """Return a flow that computes nothing and only reads the store."""
    return Flow(settings, context.world, StoreReader(context.store_url))


def _at_once(jobs: Iterable[Callable[[], Found | None]], number: int) -> list[Found]:
    """Run the jobs, `number` at the same time, and return their results in order, without None."""
    with ThreadPoolExecutor(number, thread_name_prefix="control") as pool:
        return [found for found in pool.map(lambda job: job(), jobs) if found is not None]


def control_record(
    kind: Literal["dense", "random"], seed: int, outcome: Outcome, pipeline: Flow, like: str | None = None
) -> ControlRecord:
    """Return the record of a control, with the stages of its flow."""
    return ControlRecord(
        kind=kind,
        seed=seed,
        like=like,
        title=title(pipeline.settings.model_copy(update={"method": FineTune() if kind == "dense" else RandomTicket()})),
        outcome=outcome,
        stages=tuple(pipeline.stages),
        cost=cost_of(pipeline.stages, outcome.retrain_digest),
    )


def random_controls(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    trials: list[TrialRecord],
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> list[ControlRecord]:
    """Measure random tickets like those of `controls.random_of`, each trained like its trial.

    Failed controls are reported and skipped. No control starts after the search has `ended`, but stored ones are read.

    Returns:
        The controls; those of the winner first.
    """
    settings = context.experiment.settings
    winner = ranked(trials)[:1]
    like = matched(context.experiment, trials, Store(context.store_url))
    own, others = [trial for trial in like if trial in winner], [trial for trial in like if trial not in winner]
    seeds = range(settings.controls.random_seeds)
    # First one control per ticket, then the second ones: if the budget ends, every ticket has a control.
    order = [(trial, seed) for trial in own for seed in seeds] + [(trial, seed) for seed in seeds for trial in others]
    jobs = [
        partial(_control, context, broker, trial, seed, None if trial in own else trial.id, emit, ended)
        for trial, seed in order
    ]
    return _at_once(jobs, settings.search.concurrency)


def matched(experiment: Experiment, trials: list[TrialRecord], store: Store) -> list[TrialRecord]:
    """Return the trials that get random controls: the winner, then others. Of equal tickets, only the best counts.

    Except for the winner, random and ablated tickets are skipped: a random ticket like them is not a new control.
    """
    best, which = ranked(trials), experiment.settings.controls.random_of
    rest = [trial for trial in trials if trial.status == "complete" and trial not in best]
    others = {"winner": [], "front": front(trials), "all": [*best, *rest]}[which]
    found: dict[Hashable, TrialRecord] = {}
    for trial in (*best[:1], *others):
        plain = _plain(experiment, trial)
        if trial.outcome is not None and trial.outcome.draw_digest is not None and (plain or trial in best[:1]):
            found.setdefault((plain, _counts(trial.outcome, store)), trial)
    return list(found.values())


def _plain(experiment: Experiment, trial: TrialRecord) -> bool:
    settings = experiment.at(trial.params)
    ablated = settings.ablation.mask == "shuffled" or bool(settings.ablation.start_inputs())
    return not ablated and not settings.method.at_random


def _counts(outcome: Outcome, store: Store) -> Hashable:
    """Return how much a ticket keeps in every layer or matrix. If its mask cannot be read, return its digest."""
    assert outcome.draw_digest is not None
    try:
        mask = stored_mask(outcome.draw_digest, store)
    except StoreError:
        mask = None
    if mask is None:
        return outcome.mask
    if isinstance(mask, StructuredMask):
        return tuple(tuple(kept.sum(dim=1).tolist()) for kept in (mask.heads, mask.neurons))
    return tuple((name, int(kept.sum())) for name, kept in sorted(mask.kept.items()))


def _control(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    trial: TrialRecord,
    seed: int,
    like: str | None,
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> ControlRecord | None:
    name, settings = ControlRecord.named(seed, like), context.experiment.at(trial.params)
    found = _computed(context, broker, name, settings, lambda flow: _measured(flow, trial, seed), emit, ended)
    return None if found is None else control_record("random", seed, *found, like)


def _computed(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    name: str,
    settings: Settings,
    ask: Callable[[Flow], Measured],
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> tuple[Measured, Flow] | None:
    """Return what `ask` finds, and its flow; None if it fails. After the search has `ended`, only read the store."""
    if ended():
        stored = _reading(context, settings)
        with suppress(TicketsError):
            return ask(stored), stored
        return None
    emit(TrialStarted(name, {}))
    flow = Flow(settings, context.world, BrokerRunner(broker, context.store_url, name, ended))
    try:
        found = ask(flow)
    except Exception as error:  # a failed control must not end the search
        emit(TrialFinished(name, "interrupted" if ended() else "failed", None, {}, str(error)))
        return None
    last = found[-1] if isinstance(found, tuple) else found
    emit(TrialFinished(name, "complete", None, headline(last.metrics())))
    return found, flow


def _measured(pipeline: Flow, trial: TrialRecord, seed: int) -> Outcome:
    assert trial.outcome is not None
    key = _drawn(trial.outcome)
    assert key is not None
    others = {transfer.name: _drawn(transfer.outcome) for transfer in trial.outcome.transfers}
    transfers = {task: drawn for task, drawn in others.items() if drawn is not None}
    return pipeline.random_control(key, seed, unheard, transfers)


def _drawn(outcome: Outcome) -> StageKey | None:
    """Return the key of the mask of a ticket; None for the whole model."""
    if outcome.draw_digest is None or outcome.mask is None:
        return None
    return StageKey("draw", outcome.draw_digest, outcome.mask)


AS_IT_IS = "the method does not retrain its tickets, so there are no epochs"
LOST = "the store no longer has the recipe of its training"


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
    """Attack the winner and the dense control after every epoch. Their stages train them again for this.

    Failed models are reported and skipped.
    """
    experiment = context.experiment
    models = []
    if winner is not None and winner.outcome is not None:
        models.append(_Model(winner.id, winner.title, experiment.at(winner.params), winner.outcome))
    for control in controls:
        if control.kind == "dense":
            models.append(_Model(control.name, control.title, reference(experiment), control.outcome))
    jobs = [partial(_epochs, context, broker, model, emit, ended) for model in models]
    return _at_once(jobs, experiment.settings.search.concurrency)


def _epochs(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    model: _Model,
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> EpochsRecord | None:
    stage = Store(context.store_url).recipe(trained_by(model.outcome))
    if not isinstance(stage, Retrain) or stage.retraining is None:
        reason = LOST if stage is None else AS_IT_IS
        emit(Note(f"{model.name} was not attacked epoch by epoch: {reason}"))
        return EpochsRecord(model=model.name, title=model.title, left_out=reason)
    name = f"epochs of {model.name}"
    found = _computed(
        context, broker, name, model.settings, lambda flow: flow.after_every_epoch(stage, model.outcome), emit, ended
    )
    if found is None:
        return None
    epochs, flow = found
    return EpochsRecord(model=model.name, title=model.title, epochs=epochs, stages=tuple(flow.stages))
