"""SRNets: mask training on frozen weights, under any loss (appendix Algorithm 2).

The mask is chosen on in-distribution rows, and looked at as it would be used: at the target sparsity, wherever the
gradual schedule stands.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.config.method import Imp
from tune_tickets.config.srnets import SRNets
from tune_tickets.config.training import Adversary
from tune_tickets.models.matrices import matrices_with_classifier
from tune_tickets.tickets.drawing import draw_unstructured
from tune_tickets.tickets.straight_through import StraightThroughMasks
from tune_tickets.tickets.unstructured import MaskLooks, UnstructuredMask
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import Loss
from tune_tickets.training.schedule import build_optimizer, mini_epoch_steps, total_steps
from tune_tickets.training.state import TrainState, state_parts, unpacked

Look = Callable[[PreTrainedModel], float]
"""How good the model is on in-distribution rows that it does not train on."""


class MaskTraining:
    """A mask training that can be left after any step and taken up again; the weights of `model` are frozen."""

    def __init__(
        self,
        method: SRNets,
        model: PreTrainedModel,
        rows: EncodedRows,
        seed: int,
        device: torch.device | str,
        loss: Loss,
        look: Look,
    ) -> None:
        model.requires_grad_(False)
        self._method, self._look = method, look
        self._linears = matrices_with_classifier(model, method.pooler)
        weights = {name: linear.weight for name, linear in self._linears.items()}
        self.masks = StraightThroughMasks(weights, self._sparsity(0.0), method.init, method.phi, method.alpha)
        batches = Batches(rows, method.batch_size, seed, device)
        self.state = TrainState(model, build_optimizer(self.masks, method.learning_rate, method.weight_decay))
        self.best: UnstructuredMask | None = None
        self.looks = MaskLooks()
        self.history: list[dict[str, float]] = []
        self.mini_epoch = mini_epoch_steps(batches.steps_per_epoch)
        self._best_look = float("-inf")
        self._losses = torch.zeros((), device=device)
        self.recipe = Recipe(
            batches=batches,
            loss=loss,
            adversary=Adversary(kind="none"),
            total_steps=total_steps(batches.steps_per_epoch, method.epochs),
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
        )
        self._kept_looks = frozenset(method.kept_looks(self.recipe.total_steps))

    def run(self, on_interval: Callable[[], None], on_step: Callable[[int], None]) -> None:
        """Train the masks to the end; `history` holds a record per interval, `best` the chosen mask, `looks` others."""
        with self.masks.attached(self._linears):
            for step, loss in train(self.state, self.recipe):
                self._losses = self._losses + loss
                if self.looked_at(step):
                    self._end_interval(step)
                    on_interval()
                on_step(step)

    def looked_at(self, step: int) -> bool:
        """Whether an interval ends with this step."""
        return step % self._method.eval_interval == 0 or step == self.recipe.total_steps

    def parts(self) -> dict[str, Any]:
        """What is needed to go on; the frozen model is not part of it."""
        return state_parts(
            self.state,
            masks=self.masks.state_dict(),
            losses=self._losses,
            history=self.history,
            best=None if self.best is None else dict(self.best.kept),
            best_look=self._best_look,
            looks=self.looks.bits,
        )

    def restore(self, checkpoint: bytes) -> None:
        """Go back to a checkpoint of the same mask training; after an error, build it anew."""
        with unpacked(checkpoint, self.state, "a mask training") as parts:
            self.masks.load_state_dict(parts["masks"])
            self._losses, self.history, best = parts["losses"], parts["history"], parts["best"]
            self.best = None if best is None else UnstructuredMask({name: kept.cpu() for name, kept in best.items()})
            self._best_look, self.looks = float(parts["best_look"]), MaskLooks(parts["looks"])

    def _sparsity(self, done: float) -> float:
        target = self._method.sparsity
        start = self._method.start_sparsity
        return target if start is None else cubic_sparsity(done, start, target)

    def _end_interval(self, step: int) -> None:
        """Set the thresholds anew, look at the mask of the target sparsity, and keep it if it is the best so far."""
        method, done = self._method, step / self.recipe.total_steps
        self.masks.set_sparsity(self._sparsity(done))
        mask = draw_unstructured(self.masks.scores(), method.sparsity, "matrix")
        with self.masks.fixed(mask):
            seen = self._look(self.state.model)
        # Of equals the later one: in-distribution rows favour early masks, which are not those that generalise.
        if done >= method.chosen_after and seen >= self._best_look:
            self.best, self._best_look = mask, seen
        number, steps = len(self.history) + 1, step - len(self.history) * method.eval_interval
        if number in self._kept_looks:
            self.looks.keep(number, mask)
        self.history.append(
            {
                "step": number,
                "loss": float(self._losses) / steps,
                "clean": seen,
                "weights_cut": 100.0 * self._sparsity(done),
            }
        )
        self._losses = torch.zeros_like(self._losses)


def cubic_sparsity(done: float, start: float, target: float) -> float:
    """The sparsity after a share of the training: s_T + (s_0 - s_T)(1 - done)³ (Zhu and Gupta, 2018; section 5.2)."""
    return target + (start - target) * (1.0 - done) ** 3


def masked_weights(model: PreTrainedModel, pooler: bool) -> dict[str, Tensor]:
    """The weights that SRNets prune, by name."""
    return {name: linear.weight for name, linear in matrices_with_classifier(model, pooler).items()}


def round_settings(method: SRNets) -> Imp:
    """How the weights train between two cuts, in the words of IMP."""
    return Imp(
        learning_rate=method.learning_rate,
        epochs=method.epochs,
        batch_size=method.batch_size,
        weight_decay=method.weight_decay,
        warmup=method.warmup,
        clip=method.clip,
    )
