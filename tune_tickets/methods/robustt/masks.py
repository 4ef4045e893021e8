"""RobustT, searching stage: hard-concrete masks trained under an adversary on a frozen fine-tuned model (its eq. 8).

The search produces a score per weight, log alpha. Tickets of every sparsity are drawn from the same scores
(`tickets.drawing.draw_unstructured`), so one search serves them all.
"""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.evaluate import load_trained
from tune_tickets.methods.bodies.start import device_of, encode_training_rows
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.robustt import RobustT
from tune_tickets.methods.stages import SCORES_FILE, TRAJECTORY_FILE
from tune_tickets.models.families import family_of
from tune_tickets.models.seeding import derived_seed
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.drawing import magnitudes, scores_to_bytes
from tune_tickets.tickets.hard_concrete import HardConcrete
from tune_tickets.tickets.weight_gates import WeightGates
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends
from tune_tickets.training.trainer import Part, Recipe, Record, Trainer


class Search(Trainer):
    """The mask training of a fine-tuned model, which stays frozen. An interval is an epoch."""

    def __init__(
        self, method: RobustT, model: PreTrainedModel, rows: EncodedRows, seed: int, device: torch.device | str
    ) -> None:
        model.requires_grad_(False)
        self._method = method
        self._linears, shapes = gated_matrices(model, method)
        self.gates = WeightGates(
            shapes, HardConcrete(temperature=method.temperature), method.expected_gate, method.noise == "step", device
        )
        batches = Batches(rows, method.batch_size, seed, device)
        super().__init__(
            model,
            build_optimizer(self.gates, method.learning_rate, method.weight_decay),
            Recipe.of(method, batches, cross_entropy, seed, method.adversary, self._penalty),
            ends=mini_epoch_ends(batches.steps_per_epoch, method.epochs, share=1.0),
        )

    def parts(self) -> dict[str, Part]:
        """The gates; the model is frozen."""
        return {"gates": self.gates}

    def attached(self) -> AbstractContextManager[object]:
        """The gates act on the weights."""
        return self.gates.attached(self._linears)

    def before_step(self) -> None:
        """Renew the noise of the gates."""
        self.gates.renew(derived_seed(self.recipe.seed, "gates", self.step))

    def record(self, number: int, loss: float) -> Record:
        """The loss, R(m), and the shares of gates at 0 and 1."""
        zero, one = self.gates.shares_at_ends()
        with torch.no_grad():
            alive = float(self.gates.penalty(self._method.penalty_mean))
        shares = {"masks_zero": 100.0 * zero, "masks_one": 100.0 * one}
        return {"step": number, "loss": loss, "penalty": alive, **shares}

    def _penalty(self) -> Tensor:
        method = self._method
        factor = ramp(self.step, self.recipe.total_steps, method.penalty_start, method.penalty_ramp)
        return method.penalty * factor * self.gates.penalty(method.penalty_mean)


def ramp(step: int, total: int, start: float, length: float) -> float:
    """The share of the full λ at a step (from 0): 0 for `start` of the steps, linear to 1 over `length` of them."""
    begun = step / total - start
    if begun < 0:
        return 0.0
    return 1.0 if begun >= length else begun / length


def gated_matrices(model: PreTrainedModel, method: RobustT) -> tuple[dict[str, nn.Linear], dict[str, tuple[int, ...]]]:
    """The linears that get gates, and the shapes of these gates.

    Structured gates act on the columns of the two output projections. This scales heads and neurons like
    `tickets.gates`.
    """
    if method.grouping == "weight":
        linears = family_of(model).weight_matrices(model)
        return linears, {name: tuple(linear.weight.shape) for name, linear in linears.items()}
    family = family_of(model)
    anatomy = family.anatomy(model)
    by_head, by_neuron = family.output_projections(model)
    widths = dict.fromkeys(by_head, anatomy.heads) | dict.fromkeys(by_neuron, anatomy.neurons)
    return by_head | by_neuron, {name: (1, width) for name, width in widths.items()}


def magnitude_scores(model: PreTrainedModel, method: RobustT) -> dict[str, Tensor]:
    """Scores without mask training: |w|, or for a head or neuron the norm of its columns."""
    linears, shapes = gated_matrices(model, method)
    found = magnitudes({name: linear.weight for name, linear in linears.items()})
    if method.grouping == "weight":
        return found
    by_group = {name: score.view(len(score), shapes[name][1], -1) for name, score in found.items()}
    return {name: torch.linalg.vector_norm(score, dim=(0, 2)).unsqueeze(0) for name, score in by_group.items()}


def structured_scores(model: PreTrainedModel, scores: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Scores of a structured search as [layers, heads] and [layers, neurons] for `tickets.drawing.draw`.

    That function ranks by magnitude, so both kinds are shifted to be positive, in float64 to keep the order.
    """
    heads, neurons = (
        torch.cat([scores[name].double() for name in projections])
        for projections in family_of(model).output_projections(model)
    )
    return heads - heads.min() + 1, neurons - neurons.min() + 1


def find_scores(context: StageContext) -> StageOutput:
    """Train the masks and keep their logits, or keep the magnitudes. Every sparsity is drawn from these."""
    method = RobustT.model_validate(context.inputs["method"])
    finetuned = load_trained(context)
    record: Record = {}
    if method.scores == "magnitude":
        scores = magnitude_scores(finetuned.model, method)
    else:
        rows = encode_training_rows(context, finetuned.tokenizer, load_rows(context), method.adversary)
        search = Search(method, finetuned.model, rows, context.inputs["seed"], device_of(context.resources))
        search.run(context)
        scores, record = search.gates.scores(), {**search.history[-1], "training": search.cost()}
    if method.grouping == "structured":
        heads, neurons = structured_scores(finetuned.model, scores)
        context.attempt.put(TRAJECTORY_FILE, Trajectory(heads[None], neurons[None]).to_bytes())
    else:
        context.attempt.put(SCORES_FILE, scores_to_bytes(scores))
    return StageOutput(record)
