"""Running one stage where the work is done: in a Ray worker, or in this process for tests and small uses."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from tune_tickets.config.resources import Resources
from tune_tickets.trial.stage import Stage, StageResult
from tune_tickets.trial.store import Attempt, Store

ProgressNote = Callable[[int, int, int], None]
"""Called with (units done, units in all, history records written)."""

_NOTE_SECONDS = 0.5


@dataclass
class StageContext:
    """What the body of a stage sees of the world."""

    stage: Stage
    resources: Resources
    store: Store
    attempt: Attempt
    note: ProgressNote
    _done: int = 0
    _total: int = 1
    _last_note: float = 0.0
    _last_checkpoint: float = field(default_factory=time.monotonic)

    @property
    def inputs(self) -> dict[str, Any]:
        """The settings this stage depends on."""
        return self.stage.inputs

    def upstream(self, role: str) -> StageResult:
        """The result of the stage that plays this role for ours."""
        return self.store.require(self.stage.upstream[role])

    def report(self, record: dict[str, Any]) -> None:
        """Add a record to the history that trials follow."""
        self.attempt.report(record)
        self.note(self._done, self._total, len(self.attempt.records))

    def progress(self, done: int, total: int) -> None:
        """Tell how far the stage is; cheap to call at every step."""
        self._done, self._total = done, total
        now = time.monotonic()
        if done >= total or now - self._last_note > _NOTE_SECONDS:
            self._last_note = now
            self.note(done, total, len(self.attempt.records))

    def checkpoint_due(self) -> bool:
        """Whether enough time has passed since the last checkpoint."""
        return time.monotonic() - self._last_checkpoint >= self.resources.checkpoint_seconds

    def save_checkpoint(self, files: dict[str, bytes]) -> None:
        """Keep a state to go on from."""
        self.store.save_checkpoint(self.stage, files)
        self._last_checkpoint = time.monotonic()

    def drop_checkpoint(self) -> None:
        """The stage is through: nobody will go on from its checkpoint."""
        self.store.drop_checkpoint(self.stage)


@dataclass(frozen=True)
class StageOutput:
    """What the body of a stage returns. `content` identifies the result if the digest of the stage should not."""

    record: dict[str, Any]
    content: str | None = None


def training_cost(row_passes: int, seconds: float, rows: int) -> dict[str, float]:
    """The entry `training` in the record of a stage that trains: passes over all training rows, and seconds."""
    return {"passes": row_passes / rows, "seconds": seconds}


class StageBody(Protocol):
    """The code of a stage: the function `run` of the module `trial.bodies.<name>`."""

    def __call__(self, context: StageContext) -> StageOutput: ...


def execute(stage: Stage, resources: Resources, store_url: str, note: ProgressNote) -> StageResult:
    """Compute a stage, unless its result is in the store already."""
    store = Store(store_url)
    found = store.result(stage)
    if found is not None:
        return found
    _limit_threads(resources)
    body: StageBody = import_module(f"tune_tickets.trial.bodies.{stage.name}").run
    attempt = store.begin(stage)
    started = time.perf_counter()
    output = body(StageContext(stage, resources, store, attempt, note))
    return attempt.finish(output.record, time.perf_counter() - started, output.content)


def _limit_threads(resources: Resources) -> None:
    threads = resources.threads or math.ceil(resources.cpus)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    torch.set_num_threads(threads)
