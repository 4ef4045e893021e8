"""A session for trainers outside of a stage, and checkpoints as the store keeps them."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tune_tickets.training.trainer import Checkpoint, Trainer


class Session:
    """Writes down what a trainer does; `on_step` and `on_record` may look at it meanwhile."""

    def __init__(
        self,
        on_step: Callable[[int], object] = lambda step: None,
        on_record: Callable[[dict[str, Any]], object] = lambda record: None,
        stored: dict[str, bytes] | None = None,
    ) -> None:
        self.on_step, self.on_record, self.stored = on_step, on_record, stored
        self.files: dict[str, str] = {}
        self.steps: list[int] = []
        self.records: list[dict[str, Any]] = []
        self.kept: dict[int, dict[str, bytes]] = {}
        self.waited: list[int] = []

    def report(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        self.on_record(record)

    def progress(self, done: int, total: int) -> None:
        self.steps.append(done)
        self.on_step(done)

    def keep(self, step: int, mini_epoch: int, state: Callable[[], Mapping[str, Any]]) -> None:
        self.kept[step] = to_bytes(state())

    def keep_now(self, step: int, mini_epoch: int, state: Callable[[], Mapping[str, Any]]) -> None:
        self.waited.append(step)
        self.keep(step, mini_epoch, state)

    def load_checkpoint(self) -> dict[str, bytes] | None:
        return self.stored

    def adopt(self, files: dict[str, str]) -> bool:
        self.files |= files
        return True


def to_bytes(files: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a checkpoint as the store has them."""
    return {name: content if isinstance(content, bytes) else _saved(content) for name, content in files.items()}


def _saved(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def checkpoint_of(trainer: Trainer) -> Checkpoint:
    """The checkpoint that a trainer would write now, read again."""
    trainer.session = Session()
    return Checkpoint.load(Session(stored=to_bytes(trainer.checkpoint())))
