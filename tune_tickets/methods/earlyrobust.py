"""EarlyRobust, searching stage: weights and importance coefficients trained together under an adversary (its eq. 7).

The search leaves a trajectory, the coefficients at every mini-epoch. Where it is left for a given pruning ratio is a
pure function of it (`tickets.distance.find_stop`), so trials that differ only there share the work.
"""

from collections.abc import Callable
from functools import partial

import torch
from transformers import PreTrainedModel

from tune_tickets.config.early_bird import Drawing, EarlyBird
from tune_tickets.models.anatomy import anatomy_of, layer_parts
from tune_tickets.tickets.distance import Draw, Trajectory
from tune_tickets.tickets.drawing import draw
from tune_tickets.tickets.gates import Gates, penalty
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import Loss, cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends, mini_epoch_steps, total_steps
from tune_tickets.training.state import TrainState


class Search:
    """A search that can be left after any step and taken up again."""

    def __init__(
        self,
        method: EarlyBird,
        model: PreTrainedModel,
        rows: EncodedRows,
        seed: int,
        device: torch.device | str,
        batches: Batches | None = None,
        loss: Loss = cross_entropy,
    ) -> None:
        anatomy = anatomy_of(model)
        gates = Gates(anatomy.layers, anatomy.heads, anatomy.neurons, device)
        optimizer = build_optimizer(
            model, method.learning_rate, method.weight_decay, gates, method.coefficient_learning_rate
        )
        batches = Batches(rows, method.batch_size, seed, device) if batches is None else batches
        self.state = TrainState(model, optimizer, gates)
        self.trajectory = Trajectory.empty(anatomy.layers, anatomy.heads, anatomy.neurons)
        self.losses: list[float] = []
        self.costs: list[tuple[int, float]] = []
        """Row passes and seconds from the start to the end of each mini-epoch."""
        self.ends = mini_epochs(method, len(rows))
        self.mini_epoch = mini_epoch_steps(batches.steps_per_epoch, method.mini_epoch, least=1)
        self._gates = gates
        self._recipe = Recipe(
            batches=batches,
            loss=loss,
            adversary=method.adversary,
            total_steps=total_steps(batches.steps_per_epoch, method.epochs),
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
            penalty=partial(penalty, gates, method.penalty_heads, method.penalty_neurons),
        )

    def run(self, on_mini_epoch: Callable[[], bool], on_step: Callable[[int], None]) -> None:
        """Go on until `on_mini_epoch` says that it is enough, or to the end of the schedule."""
        parts = layer_parts(self.state.model)
        with self._gates.attach([part.attention_output for part in parts], [part.output for part in parts]):
            for step, loss in train(self.state, self._recipe):
                self.state.losses = self.state.losses + loss
                if step == self.ends[len(self.trajectory)]:
                    self._end_mini_epoch(step)
                on_step(step)
                if step == self.ends[len(self.trajectory) - 1] and on_mini_epoch():
                    return

    def _end_mini_epoch(self, step: int) -> None:
        begun = self.ends[len(self.trajectory) - 1] if len(self.trajectory) else 0
        self.trajectory = self.trajectory.extended(self._gates.heads, self._gates.neurons)
        self.losses.append(float(self.state.losses) / (step - begun))
        self.costs.append((self.state.row_passes, self.state.seconds))
        self.state.losses = torch.zeros_like(self.state.losses)


def mini_epochs(method: EarlyBird, rows: int) -> tuple[int, ...]:
    """The step after which each mini-epoch ends."""
    return mini_epoch_ends(-(-rows // method.batch_size), method.epochs, method.mini_epoch)


def drawer(drawing: Drawing) -> Draw:
    """The function from scores to a mask that a drawing section stands for."""
    return partial(
        draw,
        heads=drawing.heads,
        neurons=drawing.neurons,
        heads_scope=drawing.heads_scope,
        neurons_scope=drawing.neurons_scope,
    )
