"""Iterative magnitude pruning, the lottery tickets that RobustT is compared with (LTH in its Table 1).

A round trains what the rounds before have left, then the weights of smallest magnitude are cut
(`tickets.unstructured_drawing`) and the next round starts over from the pre-trained weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.config.method import Imp
from tune_tickets.models.matrices import weight_matrices
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.tickets.unstructured_drawing import magnitudes
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import Loss, cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends, total_steps
from tune_tickets.training.state import TrainState


class Round:
    """The training of one round, which can be left at the end of any epoch and taken up again.

    `model` holds the weights it starts from, `mask` what the rounds before have left: None before the first cut.
    """

    def __init__(
        self,
        method: Imp,
        model: PreTrainedModel,
        rows: EncodedRows,
        seed: int,
        device: torch.device | str,
        mask: UnstructuredMask | None = None,
        loss: Loss = cross_entropy,
    ) -> None:
        self._weights = {name: linear.weight for name, linear in weight_matrices(model).items()}
        shapes = {name: tuple(weight.shape) for name, weight in self._weights.items()}
        self._mask = UnstructuredMask.full(shapes) if mask is None else mask
        self._mask.fold(self._weights)
        batches = Batches(rows, method.batch_size, seed, device)
        self.state = TrainState(model, build_optimizer(model, method.learning_rate, method.weight_decay))
        self.ends = mini_epoch_ends(batches.steps_per_epoch, method.epochs, share=1.0)
        self.history: list[dict[str, float]] = []
        self.recipe = Recipe(
            batches=batches,
            loss=loss,
            adversary=method.adversary,
            total_steps=total_steps(batches.steps_per_epoch, method.epochs),
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
        )

    def run(self, on_epoch: Callable[[], None], on_step: Callable[[int], None]) -> None:
        """Train to the end of the round; `history` holds a record per epoch."""
        losses, steps = torch.zeros((), device=self.state.model.device), 0
        with self._mask.hold(self._weights):
            for step, loss in train(self.state, self.recipe):
                losses, steps = losses + loss, steps + 1
                on_step(step)
                if step == self.ends[len(self.history)]:
                    self.history.append(
                        {
                            "step": len(self.history) + 1,
                            "loss": float(losses) / steps,
                            "weights_cut": 100.0 * self._mask.sparsity,
                        }
                    )
                    losses, steps = torch.zeros_like(losses), 0
                    on_epoch()

    def scores(self) -> dict[str, Tensor]:
        """The magnitudes that the next cut ranks, zero for what was cut before."""
        return magnitudes(self._weights)
