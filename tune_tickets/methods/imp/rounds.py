"""Iterative magnitude pruning, the lottery tickets that RobustT is compared with (LTH in its Table 1).

A round trains what the rounds before have left, then the weights of smallest magnitude are cut
(`tickets.unstructured_drawing`) and the next round starts over from the pre-trained weights.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.bodies.draw import load_mask
from tune_tickets.methods.bodies.start import device_of, load_model
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.stages import SCORES_FILE, WEIGHTS_FILE
from tune_tickets.models.families import family_of
from tune_tickets.tickets.drawing import magnitudes, scores_to_bytes
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import Loss, cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends, mini_epoch_steps, total_steps
from tune_tickets.training.state import TrainState


class Round:
    """The training of one round, which can be left after any step and taken up again.

    `model` holds the weights it starts from, `mask` what the rounds before have left: None before the first cut. It may
    be only a `share` of the schedule, from one part of all steps to another. `weights` are those that cuts act on.
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
        share: tuple[float, float] = (0.0, 1.0),
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._weights = weights or {
            name: linear.weight for name, linear in family_of(model).weight_matrices(model).items()
        }
        shapes = {name: tuple(weight.shape) for name, weight in self._weights.items()}
        self._mask = UnstructuredMask.full(shapes) if mask is None else mask
        self._mask.fold(self._weights)
        batches = Batches(rows, method.batch_size, seed, device)
        total = total_steps(batches.steps_per_epoch, method.epochs)
        first, last = _steps(share, total)
        self.state = TrainState(model, build_optimizer(model, method.learning_rate, method.weight_decay), step=first)
        epochs = mini_epoch_ends(batches.steps_per_epoch, method.epochs, share=1.0)
        self.ends = (*(end for end in epochs if first < end < last), last)
        self.mini_epoch = mini_epoch_steps(batches.steps_per_epoch)
        self.history: list[dict[str, float]] = []
        self._first = first
        self.recipe = Recipe(
            batches=batches,
            loss=loss,
            adversary=method.adversary,
            total_steps=total,
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
        )

    def run(self, on_epoch: Callable[[], None], on_step: Callable[[int], None]) -> None:
        """Train to the end of the round; `history` holds a record per epoch."""
        if self.state.step == self.ends[-1]:  # taken up at the end of a share, with more of the schedule behind it
            return
        with self._mask.hold(self._weights):
            for step, loss in train(self.state, self.recipe):
                self.state.losses = self.state.losses + loss
                if step == self.ends[len(self.history)]:
                    self._end_epoch(step)
                    on_epoch()
                on_step(step)
                if step == self.ends[-1]:
                    return

    def _end_epoch(self, step: int) -> None:
        begun = self.ends[len(self.history) - 1] if self.history else self._first
        self.history.append(
            {
                "step": len(self.history) + 1,
                "loss": float(self.state.losses) / (step - begun),
                "weights_cut": 100.0 * self._mask.sparsity,
            }
        )
        self.state.losses = torch.zeros_like(self.state.losses)

    def scores(self) -> dict[str, Tensor]:
        """The magnitudes that the next cut ranks, zero for what was cut before."""
        return magnitudes(self._weights)


def _steps(share: tuple[float, float], total: int) -> tuple[int, int]:
    """The steps between which a share of the schedule lies: one at least."""
    first = min(round(share[0] * total), total - 1)
    return first, max(round(share[1] * total), first + 1)


_STATE_FILE = "state.pt"
_HISTORY_FILE = "history.json"


def run_round(context: StageContext) -> StageOutput:
    """Train what the rounds before have left and keep the magnitudes: every sparsity of this round is cut by these."""
    method = Imp.model_validate(context.inputs["method"])
    device = device_of(context.resources)
    model, rows = load_model(context.inputs, load_rows(context), device)
    if "before" in context.stage.upstream:
        model.load_state_dict(load(context.store.read(context.upstream("before"), WEIGHTS_FILE)))
    this = Round(method, model, rows, context.inputs["seed"], device, _mask(context))
    record = train_round(context, this, len(rows))
    if method.rewinding == "learning_rate":
        weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
        context.attempt.put(WEIGHTS_FILE, save(weights))
    return StageOutput(record)


def train_round(context: StageContext, this: Round, rows: int) -> dict[str, Any]:
    """Train a round, from its checkpoint if there is one; keeps the magnitudes and gives the record of the stage."""
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        this.state.restore(stored[_STATE_FILE])
        this.history = json.loads(stored[_HISTORY_FILE])
        for record in this.history:
            context.report(record)

    def files() -> dict[str, Any]:
        return {_STATE_FILE: this.state.parts(), _HISTORY_FILE: json.dumps(this.history).encode()}

    def step_done(step: int) -> None:
        context.progress(step, this.ends[-1])
        context.keep(step, this.mini_epoch, files)

    this.run(lambda: context.report(this.history[-1]), step_done)
    context.attempt.put(SCORES_FILE, scores_to_bytes(this.scores()))
    return {**this.history[-1], "training": training_cost(this.state.row_passes, this.state.seconds, rows)}


def _mask(context: StageContext) -> UnstructuredMask | None:
    if "within" not in context.stage.upstream:
        return None
    mask = load_mask(context, "within")
    assert isinstance(mask, UnstructuredMask)
    return mask
