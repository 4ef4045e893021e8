"""Keeping the state of a training while it goes on, so that a kill costs no more than a mini-epoch of its work."""

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
"""The files of a checkpoint by name: bytes, or what holds tensors that go on changing."""
_CAUTION = 1.5
"""Writing is expected to take that much longer than the last time."""


class Keeper:
    """Takes a state every now and then and writes it beside the training, which waits only where it must.

    Once `mini_epoch` steps lie behind the last state that is safe on disk, the next has to be: it is taken as many
    steps before as writing the last one took. With `seconds` it is taken that rarely, and more can be lost.
    """

    def __init__(self, store: Store, stage: Stage, mini_epoch: int, seconds: float, started: int) -> None:
        """`started` is the step that the training would begin with if it were killed now."""
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
        """To be called after every step: take a state if it is time for one."""
        if self._writing is not None and self._writing.done():
            self._settle()
        if self._is_time(step):
            self._take(step, state)
        if not self._seconds and step - self._safe >= self._mini_epoch:
            self._settle()

    def now(self, step: int, state: State) -> None:
        """Have the state after this step on disk, whatever the time."""
        self._settle()
        if self._safe != step:
            self._take(step, state)
            self._settle()

    def close(self) -> None:
        """Let the last state be written to its end, and be the only one."""
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
        """The value as it is now, its tensors in memory that is used again: new memory is dearer than the copying."""
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
        if files.keys() != self._files:  # what is not written over any more would be left
            self._name, self._files = uuid.uuid4().hex[:12], frozenset(files)
        self._store.save_checkpoint(self._stage, files, self._name)
        return time.monotonic() - started

    def _settle(self) -> None:
        """Wait for the state that is being written; an error there is one of the training."""
        if self._writing is not None:
            took, self._writing = self._writing.result(), None
            self._safe = self._taken
            self._lead = math.ceil(_CAUTION * took / max(self._step_seconds, 1e-9))


def _save(content: Any, stream: IO[bytes]) -> None:  # noqa: ANN401 - as State says
    torch.serialization.set_crc32_options(False)  # the store has a digest of its own
    torch.save(content, stream)
