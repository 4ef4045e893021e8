"""Checkpoints of a training, written while it runs, so that a kill costs at most one mini-epoch of work."""

import math
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import IO, Any

import torch
from torch import Tensor

from tune_tickets.engine.files import Content
from tune_tickets.engine.stage import Stage
from tune_tickets.engine.store import Store

State = Callable[[], Mapping[str, Any]]
"""Returns the files of a checkpoint by name: bytes, or structures with tensors that change with the next step."""
_CAUTION = 1.5
"""The next write is expected to take this many times as long as the last one."""


class Keeper:
    """Copies a state from time to time and writes it in a thread. The training waits only if it must.

    When the last state on disk is `mini_epoch` steps old, the next one must be on disk. So it is copied earlier, by as
    many steps as the last write took. With `seconds`, states are copied only that often, and more steps can be lost.
    """

    def __init__(self, store: Store, stage: Stage, mini_epoch: int, seconds: float, started: int) -> None:
        """`started` is the step that the training would resume from if it were killed now."""
        self._store, self._stage = store, stage
        self._mini_epoch, self._seconds = mini_epoch, seconds
        self._safe = self._taken = started
        self._taken_at = time.monotonic()
        self._lead, self._step_seconds = 0, 0.0
        self._copies: dict[tuple[Any, ...], Tensor] = {}
        self._name, self._files = "", frozenset[str]()
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[float] | None = None

    def after(self, step: int, state: State) -> None:
        """Copy a state if it is time for one. Call this after every step."""
        if self._writing is not None and self._writing.done():
            self._settle()
        if self._is_time(step):
            self._take(step, state)
        if not self._seconds and step - self._safe >= self._mini_epoch:
            self._settle()

    def now(self, step: int, state: State) -> None:
        """Write the state after this step and wait until it is on disk."""
        self._settle()
        if self._safe != step:
            self._take(step, state)
            self._settle()

    def close(self) -> None:
        """Wait until the last state is written, and remove the one before it."""
        self._writer.shutdown(wait=True)
        self._store.settle_checkpoint(self._stage)

    def _is_time(self, step: int) -> bool:
        if self._writing is not None or time.monotonic() - self._taken_at < self._seconds:
            return False
        return step - self._safe >= max(1, self._mini_epoch - self._lead)

    def _take(self, step: int, state: State) -> None:
        self._step_seconds = (time.monotonic() - self._taken_at) / max(1, step - self._taken)
        files = {
            file: content if isinstance(content, bytes) else partial(_save, self._copied(content, (file,)))
            for file, content in state().items()
        }
        self._taken, self._taken_at = step, time.monotonic()
        self._writing = self._writer.submit(self._write, files)

    def _copied(self, value: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401 - anything a checkpoint holds
        """A copy of the value. Tensors are copied into reused memory: new memory costs more than the copy itself."""
        if isinstance(value, Tensor):
            copy = self._copies.get(path)
            if copy is None or (copy.shape, copy.dtype) != (value.shape, value.dtype):
                copy = torch.empty_like(value, device="cpu", pin_memory=value.is_cuda, requires_grad=False)
                self._copies[path] = copy
            return copy.copy_(value.detach())
        if isinstance(value, Mapping):
            return {name: self._copied(part, (*path, name)) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._copied(part, (*path, place)) for place, part in enumerate(value))
        return value

    def _write(self, files: Mapping[str, Content]) -> float:
        started = time.monotonic()
        if files.keys() != self._files:  # a new place: files of the old one would not be overwritten
            self._name, self._files = uuid.uuid4().hex[:12], frozenset(files)
        self._store.save_checkpoint(self._stage, files, self._name)
        return time.monotonic() - started

    def _settle(self) -> None:
        """Wait for the state that is being written. An error there is raised here and ends the training."""
        if self._writing is not None:
            took, self._writing = self._writing.result(), None
            self._safe = self._taken
            self._lead = math.ceil(_CAUTION * took / max(self._step_seconds, 1e-9))


def _save(content: Any, stream: IO[bytes]) -> None:  # noqa: ANN401 - as State says
    torch.serialization.set_crc32_options(False)  # the store has its own checksum
    torch.save(content, stream)
