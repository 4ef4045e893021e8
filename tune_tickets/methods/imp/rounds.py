"""Iterative magnitude pruning, the lottery tickets that RobustT is compared with (LTH in its Table 1).

A round trains what earlier rounds have left. Then the weights of smallest magnitude are cut (`tickets.drawing`). The
next round starts again from the pre-trained weights.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from safetensors.torch import load
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.draw import load_unstructured
from tune_tickets.methods.bodies.start import keep_weights, load_model
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.stages import SCORES_FILE, WEIGHTS_FILE
from tune_tickets.models.families import family_of
from tune_tickets.tickets.drawing import magnitudes, scores_to_bytes
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.losses import Loss, cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends
from tune_tickets.training.trainer import Recipe, Record, Trainer


class Round(Trainer):
    """The training of one round. An interval is an epoch."""

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
        """Prepare a round.

        Args:
            method: the settings of the training.
            model: has the weights that the round starts from.
            rows: the training rows.
            seed: decides batches and random numbers.
            device: the device of the model.
            mask: what earlier rounds have left; None before the first cut.
            loss: the loss of a pass.
            share: the part of the schedule to train, from one share of all steps to another: at least one step.
            weights: the weights that are cut, by name; None for the usual matrices.
        """
        self.weights = weights or {
            name: linear.weight for name, linear in family_of(model).weight_matrices(model).items()
        }
        shapes = {name: tuple(weight.shape) for name, weight in self.weights.items()}
        self._mask = UnstructuredMask.full(shapes) if mask is None else mask
        self._mask.fold(self.weights)
        batches = Batches(rows, method.batch_size, seed, device)
        recipe = Recipe.of(method, batches, loss, seed, method.adversary)
        total = recipe.total_steps
        first = min(round(share[0] * total), total - 1)
        last = max(round(share[1] * total), first + 1)
        epochs = mini_epoch_ends(batches.steps_per_epoch, method.epochs, share=1.0)
        super().__init__(
            model,
            build_optimizer(model, method.learning_rate, method.weight_decay),
            recipe,
            ends=(*(end for end in epochs if first < end < last), last),
            first=first,
            last=last,
        )

    def attached(self) -> AbstractContextManager[object]:
        """Weights that are cut stay zero."""
        return self._mask.hold(self.weights)

    def record(self, number: int, loss: float) -> Record:
        """The loss, and the share of weights that are cut."""
        return {"step": number, "loss": loss, "weights_cut": 100.0 * self._mask.sparsity}

    def scores(self) -> dict[str, Tensor]:
        """The magnitudes that the next cut ranks; zero for weights that are cut already."""
        return magnitudes(self.weights)


def run_round(context: StageContext) -> StageOutput:
    """Train what earlier rounds have left and keep the magnitudes. Every sparsity of this round is cut by them."""
    method = Imp.model_validate(context.inputs["method"])
    model, rows = load_model(context, load_rows(context), method.adversary)
    if "before" in context.stage.upstream:
        model.load_state_dict(load(context.store.read(context.upstream("before"), WEIGHTS_FILE)))
    mask = load_unstructured(context, "within") if "within" in context.stage.upstream else None
    this = Round(method, model, rows, context.inputs["seed"], model.device, mask)
    this.run(context)
    if method.rewinding == "learning_rate":
        keep_weights(context, model)
    return finished(context, this)


def finished(context: StageContext, this: Round) -> StageOutput:
    """Keep the magnitudes of a trained round."""
    context.attempt.put(SCORES_FILE, scores_to_bytes(this.scores()))
    return StageOutput({**this.history[-1], "training": this.cost()})
