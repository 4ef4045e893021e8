"""RobustT, searching stage: hard-concrete masks trained under an adversary on a frozen fine-tuned model (its eq. 8).

The search leaves a score per weight, log alpha; a ticket of any sparsity is drawn from it in one shot
(`tickets.unstructured_drawing.draw_unstructured`), so one search serves them all.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.bodies.evaluate import load_trained
from tune_tickets.methods.bodies.start import device_of, encode_rows
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.robustt import RobustT
from tune_tickets.methods.stages import SCORES_FILE, TRAJECTORY_FILE
from tune_tickets.models.families import family_of
from tune_tickets.models.loading import LoadedTicket
from tune_tickets.models.seeding import derived_seed
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.drawing import magnitudes, scores_to_bytes
from tune_tickets.tickets.hard_concrete import HardConcrete
from tune_tickets.tickets.weight_gates import WeightGates
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends, mini_epoch_steps, total_steps
from tune_tickets.training.state import TrainState, state_parts, unpacked


class Search:
    """A mask training that can be left after any step and taken up again; `model` is the fine-tuned one, and frozen."""

    def __init__(
        self, method: RobustT, model: PreTrainedModel, rows: EncodedRows, seed: int, device: torch.device | str
    ) -> None:
        model.requires_grad_(False)
        self._linears, shapes = gated_matrices(model, method)
        self.gates = WeightGates(
            shapes, HardConcrete(temperature=method.temperature), method.expected_gate, method.noise == "step", device
        )
        batches = Batches(rows, method.batch_size, seed, device)
        self.state = TrainState(model, build_optimizer(self.gates, method.learning_rate, method.weight_decay))
        self.ends = mini_epoch_ends(batches.steps_per_epoch, method.epochs, share=1.0)
        self.mini_epoch = mini_epoch_steps(batches.steps_per_epoch)
        self.history: list[dict[str, float]] = []
        self._method = method
        self._losses = torch.zeros((), device=device)
        self.recipe = Recipe(
            batches=batches,
            loss=cross_entropy,
            adversary=method.adversary,
            total_steps=total_steps(batches.steps_per_epoch, method.epochs),
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
            penalty=self._penalty,
        )

    def run(self, on_epoch: Callable[[], None], on_step: Callable[[int], None]) -> None:
        """Train the masks to the end of the schedule; `history` holds a record per epoch."""
        with self.gates.attached(self._linears):
            self._renew_noise()
            for step, loss in train(self.state, self.recipe):
                self._losses = self._losses + loss
                self._renew_noise()
                if step == self.ends[len(self.history)]:
                    self._end_epoch()
                    on_epoch()
                on_step(step)

    def parts(self) -> dict[str, Any]:
        """What is needed to go on; the frozen model is not part of it."""
        return state_parts(self.state, gates=self.gates.state_dict(), losses=self._losses, history=self.history)

    def restore(self, checkpoint: bytes) -> None:
        """Go back to a checkpoint of the same search; after an error, build the search anew."""
        with unpacked(checkpoint, self.state, "a mask training") as parts:
            self.gates.load_state_dict(parts["gates"])
            self._losses, self.history = parts["losses"], parts["history"]

    def _penalty(self) -> Tensor:
        method = self._method
        factor = ramp(self.state.step, self.recipe.total_steps, method.penalty_start, method.penalty_ramp)
        return method.penalty * factor * self.gates.penalty(method.penalty_mean)

    def _renew_noise(self) -> None:
        self.gates.renew(derived_seed(self.recipe.seed, "gates", self.state.step))

    def _end_epoch(self) -> None:
        epoch = len(self.history) + 1
        steps = self.ends[epoch - 1] - (self.ends[epoch - 2] if epoch > 1 else 0)
        zero, one = self.gates.shares_at_ends()
        with torch.no_grad():
            alive = float(self.gates.penalty(self._method.penalty_mean))
        self.history.append(
            {
                "step": epoch,
                "loss": float(self._losses) / steps,
                "penalty": alive,
                "masks_zero": 100.0 * zero,
                "masks_one": 100.0 * one,
            }
        )
        self._losses = torch.zeros_like(self._losses)


def ramp(step: int, total: int, start: float, length: float) -> float:
    """The share of the full λ at a step (from 0): 0 for `start` of the steps, linear to 1 over `length` of them."""
    begun = step / total - start
    if begun < 0:
        return 0.0
    return 1.0 if begun >= length else begun / length


def gated_matrices(model: PreTrainedModel, method: RobustT) -> tuple[dict[str, nn.Linear], dict[str, tuple[int, ...]]]:
    """The linears that get gates, and the shapes of these gates.

    Structured gates stand on the columns of the two output projections, which scales heads and neurons as
    `tickets.gates` does.
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
    """Scores without mask training: |w|, or for a head or neuron the norm of the columns that its gate would scale."""
    linears, shapes = gated_matrices(model, method)
    found = magnitudes({name: linear.weight for name, linear in linears.items()})
    if method.grouping == "weight":
        return found
    by_group = {name: score.view(len(score), shapes[name][1], -1) for name, score in found.items()}
    return {name: torch.linalg.vector_norm(score, dim=(0, 2)).unsqueeze(0) for name, score in by_group.items()}


def structured_scores(model: PreTrainedModel, scores: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Scores of a structured search as [layers, heads] and [layers, neurons] for `tickets.drawing.draw`.

    That ranks by magnitude, so every kind is shifted to be positive, in float64 to keep the order of all logits.
    """
    heads, neurons = (
        torch.cat([scores[name].double() for name in projections])
        for projections in family_of(model).output_projections(model)
    )
    return heads - heads.min() + 1, neurons - neurons.min() + 1


_STATE_FILE = "state.pt"


def find_scores(context: StageContext) -> StageOutput:
    """Train the masks and keep their logits, or the magnitudes instead: every sparsity is drawn from these."""
    method = RobustT.model_validate(context.inputs["method"])
    finetuned = load_trained(context)
    record: dict[str, Any] = {}
    if method.scores == "magnitude":
        scores = magnitude_scores(finetuned.model, method)
    else:
        scores, record = _train(context, method, finetuned)
    if method.grouping == "structured":
        heads, neurons = structured_scores(finetuned.model, scores)
        context.attempt.put(TRAJECTORY_FILE, Trajectory(heads[None], neurons[None]).to_bytes())
    else:
        context.attempt.put(SCORES_FILE, scores_to_bytes(scores))
    return StageOutput(record)


def _train(context: StageContext, method: RobustT, finetuned: LoadedTicket) -> tuple[dict[str, Tensor], dict[str, Any]]:
    rows = encode_rows(finetuned.tokenizer, load_rows(context).train, context.inputs["max_length"])
    search = Search(method, finetuned.model, rows, context.inputs["seed"], device_of(context.resources))
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        search.restore(stored[_STATE_FILE])
        for record in search.history:
            context.report(record)

    def step_done(step: int) -> None:
        context.progress(step, search.ends[-1])
        context.keep(step, search.mini_epoch, lambda: {_STATE_FILE: search.parts()})

    search.run(lambda: context.report(search.history[-1]), step_done)
    training = training_cost(search.state.row_passes, search.state.seconds, len(rows))
    return search.gates.scores(), {**search.history[-1], "training": training}
