"""The winner and the dense control after every epoch of their training, under real attacks (RobustT Fig. 4)."""

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
from tune_tickets.engine.runner import StoreReader
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


class DenseControl:
    """The dense control under way beside the trials, which wait for the same stages when they are judged."""

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
        """The control, if it is wanted and could be measured; waits for it until the search has `ended`.

        What earlier sessions have measured is there also when this one may not spend anything.
        """
        while self._wanted and self._thread.is_alive() and not ended():
            self._thread.join(timeout=_LOOK_SECONDS)
        if self._record is None and self._wanted:
            pipeline = reading(self._context, reference(self._context.experiment))
            with suppress(TicketsError):
                self._record = control_record("dense", 0, pipeline.dense_control(lambda record: None), pipeline)
        return self._record

    def close(self) -> None:
        """Stop waiting; nothing of ours may ask Ray for anything once the session is over."""
        self._runner.stop()
        if self._wanted:
            self._thread.join(timeout=10.0)

    def _measure(self) -> None:
        self._emit(TrialStarted("dense", {}))
        try:
            pipeline = Flow(reference(self._context.experiment), self._context.world, self._runner)
            outcome = pipeline.dense_control(lambda record: None)
            self._record = control_record("dense", 0, outcome, pipeline)
            self._emit(TrialFinished("dense", "complete", None, headline(outcome.metrics())))
        except Exception as error:  # the trials are judged without it, so they fail too, and say why
            if not self._runner.stopped:
                self._emit(TrialFinished("dense", "failed", None, {}, str(error)))


def reading(context: TrialContext, settings: Settings) -> Flow:
    """A pipeline that computes nothing, for what earlier sessions have left in the store."""
    return Flow(settings, context.world, StoreReader(context.store_url))


def measured_at_once(jobs: Iterable[Callable[[], Found | None]], number: int) -> list[Found]:
    """What the jobs find, in their order, `number` of them under way at once: they only wait for stages."""
    with ThreadPoolExecutor(number, thread_name_prefix="control") as pool:
        return [found for found in pool.map(lambda job: job(), jobs) if found is not None]


def control_record(
    kind: Literal["dense", "random"], seed: int, outcome: Outcome, pipeline: Flow, like: str | None = None
) -> ControlRecord:
    """A control as it is written down, with the stages that its pipeline has noted."""
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
    """Random tickets like those that `controls.random_of` names, each trained as its trial was; the winner's first.

    One that fails is left out and said to; none is begun, or waited for, once the search has `ended`, but those in the
    store are read.
    """
    settings = context.experiment.settings
    winner = ranked(trials)[:1]
    like = matched(context.experiment, trials, Store(context.store_url))
    own, others = [trial for trial in like if trial in winner], [trial for trial in like if trial not in winner]
    seeds = range(settings.controls.random_seeds)
    # Every ticket gets its first before any gets its second: a budget that ends then leaves a whole line.
    order = [(trial, seed) for trial in own for seed in seeds] + [(trial, seed) for seed in seeds for trial in others]
    jobs = [
        partial(_control, context, broker, trial, seed, None if trial in own else trial.id, emit, ended)
        for trial, seed in order
    ]
    return measured_at_once(jobs, settings.search.concurrency)


def matched(experiment: Experiment, trials: list[TrialRecord], store: Store) -> list[TrialRecord]:
    """The trials whose tickets get random ones like them: the winner, then others; of equal counts the best ranked.

    Beside the winner none that is random itself or ablated: a random one like it would be no other control.
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
    """How much a ticket keeps in every layer or matrix; of a mask that cannot be read, which it is."""
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
    settings = context.experiment.at(trial.params)
    if ended():
        pipeline = reading(context, settings)
        with suppress(TicketsError):
            return control_record("random", seed, _measured(pipeline, trial, seed), pipeline, like)
        return None
    name = ControlRecord.named(seed, like)
    emit(TrialStarted(name, {}))
    pipeline = Flow(settings, context.world, BrokerRunner(broker, context.store_url, name, ended))
    try:
        measured = _measured(pipeline, trial, seed)
    except Exception as error:  # hours of search are not given up for a control
        emit(TrialFinished(name, "interrupted" if ended() else "failed", None, {}, str(error)))
        return None
    emit(TrialFinished(name, "complete", None, headline(measured.metrics())))
    return control_record("random", seed, measured, pipeline, like)


def _measured(pipeline: Flow, trial: TrialRecord, seed: int) -> Outcome:
    assert trial.outcome is not None
    key = _drawn(trial.outcome)
    assert key is not None
    others = {transfer.name: _drawn(transfer.outcome) for transfer in trial.outcome.transfers}
    transfers = {task: drawn for task, drawn in others.items() if drawn is not None}
    return pipeline.random_control(key, seed, lambda record: None, transfers)


def _drawn(outcome: Outcome) -> StageKey | None:
    """Where the mask of a ticket lies; None for the whole model."""
    if outcome.draw_digest is None or outcome.mask is None:
        return None
    return StageKey("draw", outcome.draw_digest, outcome.mask)


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
    if not isinstance(stage, Retrain) or stage.retraining is None:
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
    pipeline = Flow(model.settings, context.world, BrokerRunner(broker, context.store_url, name, ended))
    try:
        found = pipeline.after_every_epoch(stage, model.outcome)
    except Exception as error:  # hours of search are not given up for a picture
        emit(TrialFinished(name, "interrupted" if ended() else "failed", None, {}, str(error)))
        return None
    emit(TrialFinished(name, "complete", None, headline(found[-1].metrics())))
    return _record(model, found, pipeline)


def _record(model: _Model, found: tuple[EpochFigures, ...], pipeline: Flow) -> EpochsRecord:
    return EpochsRecord(model=model.name, title=model.title, epochs=found, stages=tuple(pipeline.stages))
