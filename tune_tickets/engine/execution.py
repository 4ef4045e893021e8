"""Running one stage where the work is done: in a Ray worker, or in this process for tests and small uses."""

import math
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tune_tickets.config.search import Resources
from tune_tickets.engine.lease import leased
from tune_tickets.engine.quarantine import finished
from tune_tickets.engine.stage import Stage, StageResult
from tune_tickets.engine.store import Attempt, Store

if TYPE_CHECKING:
    from tune_tickets.engine.checkpoint import Keeper, State


ProgressNote = Callable[[int, int, int], None]
"""Called with (units done, units in all, history records written)."""

_NOTE_SECONDS = 1.0


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
    _keeper: "Keeper | None" = None

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

    def keep(self, step: int, mini_epoch: int, state: "State") -> None:
        """Have states to go on from, never more than a mini-epoch of so many steps old: to be called at every step."""
        self._keeping(step, mini_epoch).after(step, state)

    def keep_now(self, step: int, mini_epoch: int, state: "State") -> None:
        """Have the state after this step to go on from before anything else happens."""
        self._keeping(step, mini_epoch).now(step, state)

    def close(self) -> None:
        """Let what is being kept get to the store."""
        if self._keeper is not None:
            self._keeper.close()

    def _keeping(self, step: int, mini_epoch: int) -> "Keeper":
        if self._keeper is None:
            from tune_tickets.engine.checkpoint import Keeper

            seconds = self.resources.checkpoint_seconds
            self._keeper = Keeper(self.store, self.stage, mini_epoch, seconds, started=step - 1)
        return self._keeper


@dataclass(frozen=True)
class StageOutput:
    """What the body of a stage returns. `content` identifies the result if the digest of the stage should not."""

    record: dict[str, Any]
    content: str | None = None


def training_cost(row_passes: int, seconds: float, rows: int) -> dict[str, float]:
    """The entry `training` in the record of a stage that trains: passes over all training rows, and seconds."""
    return {"passes": row_passes / rows, "seconds": seconds}


def execute(stage: Stage, resources: Resources, store_url: str, note: ProgressNote, owner: str = "") -> StageResult:
    """Compute a stage, unless its result is in the store already; `LeaseHeld` if somebody else computes it."""
    store = Store(store_url)
    found = finished(store, stage)
    if found is not None:
        return found
    with leased(store, stage, resources.lease_seconds, owner):
        # It may have been finished a moment ago by the one who held the lease.
        return store.result(stage) or _compute(stage, resources, store, note)


def _compute(stage: Stage, resources: Resources, store: Store, note: ProgressNote) -> StageResult:
    _limit_threads(resources)
    attempt = store.begin(stage)
    started = time.perf_counter()
    # Closed while the lease is held: whoever computes the stage next must not meet a late checkpoint of ours.
    with closing(StageContext(stage, resources, store, attempt, note)) as context:
        output = stage.run(context)
    result = attempt.finish(output.record, time.perf_counter() - started, output.content)
    if stage.goal is None:  # an extensible stage goes on from it for other goals
        store.drop_checkpoint(stage)
    return result


def _limit_threads(resources: Resources) -> None:
    threads = math.ceil(resources.cpus)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    torch.set_num_threads(threads)
