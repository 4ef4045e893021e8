"""What a training run has to remember to go on where it was left."""

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.errors import StoreError
from tune_tickets.tickets.gates import Gates


@dataclass
class TrainState:
    """Model, optimizer, perhaps gates or the critic of a loss, and how many steps are done.

    Random numbers, batches and learning rates follow from the step, so no state of theirs is kept.
    """

    model: PreTrainedModel
    optimizer: torch.optim.Optimizer
    gates: Gates | None = None
    step: int = 0
    row_passes: int = 0
    """What training has cost whatever the machine: rows that went forward and backward, once per adversarial pass."""
    seconds: float = 0.0
    """What it has cost on this one: time spent in training steps."""
    critic: nn.Module | None = None
    losses: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Sum of the losses since the last record, for those who report their mean."""

    def parts(self) -> dict[str, Any]:
        """What a checkpoint holds; its tensors are those in use and go on changing."""
        return state_parts(
            self,
            model=self.model.state_dict(),
            gates=None if self.gates is None else self.gates.state_dict(),
            critic=None if self.critic is None else self.critic.state_dict(),
            losses=self.losses,
        )

    def restore(self, checkpoint: bytes) -> None:
        """Go back to a checkpoint of the same parts; after an error, build these anew."""
        with unpacked(checkpoint, self, "a training") as parts:
            self.model.load_state_dict(parts["model"])
            if self.gates is not None:
                self.gates.load_state_dict(parts["gates"])
            if self.critic is not None:
                self.critic.load_state_dict(parts["critic"])
            self.losses = parts["losses"]


def state_parts(state: TrainState, **parts: Any) -> dict[str, Any]:  # noqa: ANN401 - numbers, tensors, what holds them
    """What a checkpoint holds: how far a training is, its optimizer, and what else has changed since it began."""
    return {
        "step": state.step,
        "row_passes": state.row_passes,
        "seconds": state.seconds,
        "optimizer": state.optimizer.state_dict(),
        **parts,
    }


@contextmanager
def unpacked(checkpoint: bytes, state: TrainState, what: str) -> Iterator[dict[str, Any]]:
    """The parts of a checkpoint for the caller to put back; those that `state_parts` adds are back already."""
    device = next(state.model.parameters()).device
    try:
        # weights_only: a checkpoint can hold numbers, never code.
        parts = torch.load(io.BytesIO(checkpoint), map_location=device, weights_only=True)
        state.optimizer.load_state_dict(parts["optimizer"])
        state.step = int(parts["step"])
        state.row_passes, state.seconds = int(parts["row_passes"]), float(parts["seconds"])
        yield parts
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        raise StoreError(
            f"the checkpoint of {what} cannot be read or belongs to another model ({error}); "
            "delete it, and it starts afresh"
        ) from error
