"""Compute one stage, in a Ray worker or in this process."""

import math
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tune_tickets.engine.lease import leased
from tune_tickets.engine.quarantine import finished
from tune_tickets.engine.stage import Stage, StageResult
from tune_tickets.engine.store import Attempt, Store

if TYPE_CHECKING:
    from tune_tickets.engine.checkpoint import Keeper, State


class Resources(Protocol):
    """What each stage may use, and how failures are handled."""

    @property
    def cpus(self) -> float:
        """CPUs per stage."""

    @property
    def gpus(self) -> float:
        """GPUs per stage; fractions share a GPU."""

    @property
    def retries(self) -> int:
        """How often a stage is restarted after its worker died."""

    @property
    def checkpoint_seconds(self) -> float:
        """The shortest time between two checkpoints."""

    @property
    def lease_seconds(self) -> float:
        """After how many seconds without a heartbeat another process may take over a stage."""


ProgressNote = Callable[[int, int, int], None]
"""Called with (units done, units in all, history records written)."""

_NOTE_SECONDS = 1.0


@dataclass
class StageContext:
    """What `Stage.run` gets: its inputs, upstream results, and where to report progress."""

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
        """Return the result of an upstream stage by its role."""
        return self.store.require(self.stage.upstream[role])

    def report(self, record: dict[str, Any]) -> None:
        """Add a record to the metric history that trials follow."""
        self.attempt.report(record)
        self.note(self._done, self._total, len(self.attempt.records))

    def progress(self, done: int, total: int) -> None:
        """Report progress. Cheap enough to call at every step."""
        self._done, self._total = done, total
        now = time.monotonic()
        if done >= total or now - self._last_note > _NOTE_SECONDS:
            self._last_note = now
            self.note(done, total, len(self.attempt.records))

    def keep(self, step: int, mini_epoch: int, state: "State") -> None:
        """Checkpoint often enough that at most one mini-epoch is lost. Call this at every step."""
        self._keeping(step, mini_epoch).after(step, state)

    def keep_now(self, step: int, mini_epoch: int, state: "State") -> None:
        """Write a checkpoint of this step and wait until it is on disk."""
        self._keeping(step, mini_epoch).now(step, state)

    def load_checkpoint(self) -> dict[str, bytes] | None:
        """Return the files of the last checkpoint; None if there is none or if it is damaged."""
        return self.store.load_checkpoint(self.stage)

    @property
    def files(self) -> dict[str, str]:
        """The result files written so far, by name, with their places."""
        return self.attempt.files

    def adopt(self, files: dict[str, str]) -> bool:
        """Reuse result files of an earlier attempt. False if one of them is gone."""
        return self.attempt.adopt(files)

    def close(self) -> None:
        """Wait until the last checkpoint is in the store."""
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
    """What `Stage.run` returns. `content` identifies the result if the digest of the stage should not."""

    record: dict[str, Any]
    content: str | None = None


def execute(stage: Stage, resources: Resources, store_url: str, note: ProgressNote, owner: str = "") -> StageResult:
    """Compute a stage, or return its result if the store has it.

    Raises:
        LeaseHeld: another process computes the stage.
    """
    store = Store(store_url)
    found = finished(store, stage)
    if found is not None:
        return found
    with leased(store, stage, resources.lease_seconds, owner):
        found = store.result(stage)
        if found is not None:  # another process finished it just before we got the lease
            return found
        _limit_threads(resources)
        attempt = store.begin(stage)
        started = time.perf_counter()
        # Close while the lease is held: the next process must not find a late checkpoint of ours.
        with closing(StageContext(stage, resources, store, attempt, note)) as context:
            output = stage.run(context)
        result = attempt.finish(output.record, time.perf_counter() - started, output.content)
        if stage.goal is None:  # other goals of an extensible stage continue from it
            store.drop_checkpoint(stage)
        return result


def _limit_threads(resources: Resources) -> None:
    threads = math.ceil(resources.cpus)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    torch.set_num_threads(threads)
