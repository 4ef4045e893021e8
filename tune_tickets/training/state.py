"""What a training run has to remember to go on where it was left."""

import io
import pickle
from dataclasses import dataclass, field

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

    def to_bytes(self) -> bytes:
        """The state as a checkpoint."""
        stream = io.BytesIO()
        content = {
            "step": self.step,
            "row_passes": self.row_passes,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "gates": None if self.gates is None else self.gates.state_dict(),
            "critic": None if self.critic is None else self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "losses": self.losses,
        }
        torch.save(content, stream)
        return stream.getvalue()

    def restore(self, checkpoint: bytes) -> None:
        """Go back to a checkpoint of the same parts; after an error, build these anew."""
        device = next(self.model.parameters()).device
        try:
            # weights_only: a checkpoint can hold numbers, never code.
            content = torch.load(io.BytesIO(checkpoint), map_location=device, weights_only=True)
            self.model.load_state_dict(content["model"])
            if self.gates is not None:
                self.gates.load_state_dict(content["gates"])
            if self.critic is not None:
                self.critic.load_state_dict(content["critic"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.losses = content["losses"]
            self.step = int(content["step"])
            self.row_passes, self.seconds = int(content["row_passes"]), float(content["seconds"])
        except (
            RuntimeError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            EOFError,
            pickle.UnpicklingError,
        ) as error:
            raise StoreError(
                f"a training checkpoint cannot be read or belongs to another model ({error}); "
                "delete it and the training starts afresh"
            ) from error
