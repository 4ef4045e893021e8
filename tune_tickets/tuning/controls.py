"""Controls: the models every ticket is compared with, measured by the same stages."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal, TypeVar

from tune_tickets.config import Settings
from tune_tickets.config.method import FineTune, RandomTicket
from tune_tickets.config.title import title
from tune_tickets.errors import TicketsError
from tune_tickets.records import ControlRecord, Outcome, cost_of, headline
from tune_tickets.reporting.progress import Event, TrialFinished, TrialStarted
from tune_tickets.space import reference
from tune_tickets.trial.client import BrokerRunner
from tune_tickets.trial.pipeline import Pipeline
from tune_tickets.trial.runner import StoreReader
from tune_tickets.trial.trainable import TrialContext

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
            pipeline = Pipeline(reference(self._context.experiment), self._context.world, self._runner)
            outcome = pipeline.dense_control(lambda record: None)
            self._record = control_record("dense", 0, outcome, pipeline)
            self._emit(TrialFinished("dense", "complete", None, headline(outcome.metrics())))
        except Exception as error:  # the trials are judged without it, so they fail too, and say why
            if not self._runner.stopped:
                self._emit(TrialFinished("dense", "failed", None, {}, str(error)))


def reading(context: TrialContext, settings: Settings) -> Pipeline:
    """A pipeline that computes nothing, for what earlier sessions have left in the store."""
    return Pipeline(settings, context.world, StoreReader(context.store_url))


def measured_at_once(jobs: Iterable[Callable[[], Found | None]], number: int) -> list[Found]:
    """What the jobs find, in their order, `number` of them under way at once: they only wait for stages."""
    with ThreadPoolExecutor(number, thread_name_prefix="control") as pool:
        return [found for found in pool.map(lambda job: job(), jobs) if found is not None]


def control_record(
    kind: Literal["dense", "random"], seed: int, outcome: Outcome, pipeline: Pipeline, like: str | None = None
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
