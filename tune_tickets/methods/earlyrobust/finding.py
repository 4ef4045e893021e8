"""EarlyRobust, searching stage: weights and importance coefficients trained together under an adversary (its eq. 7).

The search produces a trajectory: the coefficients after every mini-epoch. Where it stops for a given pruning ratio is a
pure function of the trajectory (`tickets.distance.find_stop`), so trials that differ only in this share the work.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from transformers import PreTrainedModel

from tune_tickets.config.training import Drawing
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.draw import drawer
from tune_tickets.methods.bodies.start import device_of, load_model
from tune_tickets.methods.earlyrobust import EarlyBird, EarlyRobust
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.stages import TRAJECTORY_FILE
from tune_tickets.models.families import family_of
from tune_tickets.tickets.distance import Stop, Trajectory, distances, find_stop
from tune_tickets.tickets.gates import Gates, penalty
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.losses import Loss, cross_entropy
from tune_tickets.training.schedule import build_optimizer, mini_epoch_ends, mini_epoch_steps
from tune_tickets.training.trainer import Checkpoint, Part, Recipe, Record, Trainer, training_cost


class Search(Trainer):
    """The search for scores. An interval is a mini-epoch."""

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
        anatomy = family_of(model).anatomy(model)
        self.gates = Gates(anatomy.layers, anatomy.heads, anatomy.neurons, device)
        self.trajectory = Trajectory.empty(anatomy.layers, anatomy.heads, anatomy.neurons)
        self.stop: Stop | None = None
        self._method = method
        rates = method.learning_rate, method.weight_decay
        optimizer = build_optimizer(model, *rates, self.gates, method.coefficient_learning_rate)
        batches = Batches(rows, method.batch_size, seed, device) if batches is None else batches
        sparsity = partial(penalty, self.gates, method.penalty_heads, method.penalty_neurons)
        super().__init__(
            model,
            optimizer,
            Recipe.of(method, batches, loss, seed, method.adversary, sparsity),
            ends=_mini_epochs(method, len(rows)),
            mini_epoch=mini_epoch_steps(batches.steps_per_epoch, method.mini_epoch, least=1),
        )

    def parts(self) -> dict[str, Part]:
        """The model and the coefficients."""
        return {"model": self.model, "gates": self.gates}

    def attached(self) -> AbstractContextManager[object]:
        """The coefficients act on heads and neurons."""
        heads, neurons = family_of(self.model).output_projections(self.model)
        return self.gates.attach(heads.values(), neurons.values())

    def record(self, number: int, loss: float) -> Record:
        """Add the coefficients to the trajectory; the cost up to here is needed if another trial stops here."""
        self.trajectory = self.trajectory.extended(self.gates.heads, self.gates.neurons)
        self.stop = _stop(self.trajectory, self._method)
        return {"step": number, "loss": loss, "row_passes": self.row_passes, "seconds": self.seconds}

    def shown(self, record: Record) -> Record:
        """Loss and mask distances."""
        return _shown(record, self.trajectory, self._method.drawing)

    def enough(self) -> bool:
        """Whether the mask has converged."""
        return self.stop is not None

    def files(self) -> dict[str, bytes]:
        """The trajectory, apart from the state: it is kept when the state is cleaned."""
        return {TRAJECTORY_FILE: self.trajectory.to_bytes()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load the state and the trajectory."""
        super().restore(checkpoint)
        self.trajectory = Trajectory.from_bytes(checkpoint.files[TRAJECTORY_FILE])


Start = tuple[EarlyBird, int, Callable[[torch.device], Search]]
"""The settings with their stop rule, the number of rows, and what builds the search at its first step on a device."""


def on_rows(context: StageContext) -> Start:
    """A search on the labelled rows of a task."""
    method = EarlyRobust.model_validate({**context.inputs["method"], **(context.stage.goal or {})})
    rows = load_rows(context)

    def start(device: torch.device) -> Search:
        model, encoded = load_model(context, rows, method.adversary)
        return Search(method, model, encoded, context.inputs["seed"], device)

    return method, len(rows.train), start


def extend(context: StageContext, search_on: Start) -> StageOutput:
    """Find the stop in the stored trajectory. Train further if it is not there yet."""
    method, rows, start = search_on
    ends, stored = _mini_epochs(method, rows), Checkpoint.load(context)
    if stored is None:
        trajectory, history = Trajectory.empty(0, 0, 0), list[Record]()
    else:
        trajectory, history = Trajectory.from_bytes(stored.files[TRAJECTORY_FILE]), list(stored.history)
    before, stop = len(trajectory), _stop(trajectory, method)
    if stop is not None or before == len(ends):
        # The history of a trial that reuses a trajectory is the same as if it had computed it.
        for record in history:
            context.report(_shown(record, trajectory, method.drawing))
    else:
        search = start(device_of(context.resources))
        search.run(context, stored)
        # A later trial with another ratio or gamma continues from here.
        context.keep_now(search.step, search.mini_epoch, search.checkpoint)
        before, trajectory, history, stop = search.replayed, search.trajectory, search.history, search.stop
    context.attempt.put(TRAJECTORY_FILE, trajectory.to_bytes())
    stopped_at = stop.mini_epoch if stop is not None else len(ends)
    last = history[stopped_at - 1]
    return StageOutput(
        {
            "stop": stopped_at,
            "converged": stop is not None,
            "mini_epochs": len(ends),
            "computed_mini_epochs": len(trajectory) - before,
            "training": training_cost(last["row_passes"], last["seconds"], rows),
        }
    )


def _mini_epochs(method: EarlyBird, rows: int) -> tuple[int, ...]:
    """The step after which each mini-epoch ends."""
    return mini_epoch_ends(-(-rows // method.batch_size), method.epochs, method.mini_epoch)


def _stop(trajectory: Trajectory, method: EarlyBird) -> Stop | None:
    if len(trajectory) == 0:
        return None
    return find_stop(trajectory, drawer(method.drawing), method.gamma, method.patience)


def _shown(record: Record, trajectory: Trajectory, drawing: Drawing) -> Record:
    """A record with the distance between the masks of its mini-epoch and of the one before."""
    number = record["step"]
    last_two = slice(max(0, number - 2), number)
    shown = {"step": number, "loss": record["loss"]}
    for distance in distances(Trajectory(trajectory.heads[last_two], trajectory.neurons[last_two]), drawer(drawing)):
        shown |= {"distance_heads": distance.heads, "distance_neurons": distance.neurons}
    return shown
