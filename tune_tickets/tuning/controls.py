"""Controls: the models every ticket is compared with, measured by the same stages."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from tune_tickets.config import Settings
from tune_tickets.config.method import FineTune, RandomTicket
from tune_tickets.config.title import title
from tune_tickets.errors import TicketsError
from tune_tickets.records import ControlRecord, Outcome, TrialRecord, cost_of, headline
from tune_tickets.reporting.progress import Event, TrialFinished, TrialStarted
from tune_tickets.space import reference
from tune_tickets.trial.client import BrokerRunner
from tune_tickets.trial.pipeline import Pipeline
from tune_tickets.trial.runner import StoreReader
from tune_tickets.trial.stage import StageKey
from tune_tickets.trial.trainable import TrialContext

_LOOK_SECONDS = 0.5


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
            pipeline = _reading(self._context, reference(self._context.experiment))
            with suppress(TicketsError):
                self._record = _record("dense", 0, pipeline.dense_control(lambda record: None), pipeline)
        return self._record

    def close(self) -> None:
        """Stop waiting; nothing of ours may ask Ray for anything once the session is over."""
        self._runner.stop()
        if self._wanted:
            self._thread.join(timeout=10.0)

    def _measure(self) -> None:
        self._emit(TrialStarted("dense", {}))
        try:
            pipeline = Pipeline(reference(self._context.experiment), self._context.world, self._runner)
            outcome = pipeline.dense_control(lambda record: None)
            self._record = _record("dense", 0, outcome, pipeline)
            self._emit(TrialFinished("dense", "complete", None, headline(outcome.metrics())))
        except Exception as error:  # the trials are judged without it, so they fail too, and say why
            if not self._runner.stopped:
                self._emit(TrialFinished("dense", "failed", None, {}, str(error)))


def random_controls(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    winner: TrialRecord,
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> list[ControlRecord]:
    """Random tickets with the winner's number of heads and neurons in every layer, trained as the winner was.

    One that fails is left out and said to; none is begun, or waited for, once the search has `ended`, but those in the
    store are read.
    """
    outcome = winner.outcome
    if outcome is None or outcome.draw_digest is None or outcome.mask is None:
        return []
    like = StageKey("draw", outcome.draw_digest, outcome.mask)
    others = {
        transfer.name: StageKey("draw", transfer.outcome.draw_digest, transfer.outcome.mask)
        for transfer in outcome.transfers
        if transfer.outcome.draw_digest is not None and transfer.outcome.mask is not None
    }
    settings = context.experiment.at(winner.params)
    records = []
    for seed in range(settings.controls.random_seeds):
        if ended():
            pipeline = _reading(context, settings)
            with suppress(TicketsError):
                records.append(
                    _record("random", seed, pipeline.random_control(like, seed, lambda record: None, others), pipeline)
                )
            continue
        name = f"random-{seed}"
        emit(TrialStarted(name, {}))
        pipeline = Pipeline(settings, context.world, BrokerRunner(broker, context.store_url, name, ended))
        try:
            measured = pipeline.random_control(like, seed, lambda record: None, others)
        except Exception as error:  # hours of search are not given up for a control
            emit(TrialFinished(name, "interrupted" if ended() else "failed", None, {}, str(error)))
            continue
        records.append(_record("random", seed, measured, pipeline))
        emit(TrialFinished(name, "complete", None, headline(measured.metrics())))
    return records


def _reading(context: TrialContext, settings: Settings) -> Pipeline:
    return Pipeline(settings, context.world, StoreReader(context.store_url))


def _record(kind: Literal["dense", "random"], seed: int, outcome: Outcome, pipeline: Pipeline) -> ControlRecord:
    return ControlRecord(
        kind=kind,
        seed=seed,
        title=title(pipeline.settings.model_copy(update={"method": FineTune() if kind == "dense" else RandomTicket()})),
        outcome=outcome,
        stages=tuple(pipeline.stages),
        cost=cost_of(pipeline.stages, outcome.retrain_digest),
    )
