"""EarlyRobust, searching stage: weights and importance coefficients trained together under an adversary (its eq. 7).

The search leaves a trajectory, the coefficients at every mini-epoch. Where it is left for a given pruning ratio is a
pure function of it (`tickets.distance.find_stop`), so trials that differ only there share the work.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel

from tune_tickets.config.training import Drawing
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.bodies.draw import drawer
from tune_tickets.methods.bodies.start import device_of, load_model
from tune_tickets.methods.earlyrobust import EarlyBird, EarlyRobust
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.stages import TRAJECTORY_FILE
from tune_tickets.models.families import family_of
from tune_tickets.tickets.distance import Stop, Trajectory, distances, find_stop
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
        anatomy = family_of(model).anatomy(model)
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
        heads, neurons = family_of(self.state.model).output_projections(self.state.model)
        with self._gates.attach(heads.values(), neurons.values()):
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


_STATE_FILE = "state.pt"
_LOSSES_FILE = "losses.json"
_COSTS_FILE = "costs.json"

Start = Callable[[torch.device], Search]
"""Builds a search at its first step, on a device."""


@dataclass
class _Progress:
    """What there is of the trajectory."""

    trajectory: Trajectory
    losses: list[float]
    costs: list[tuple[int, float]]


def search(context: StageContext) -> StageOutput:
    """Search on the labelled rows of a task."""
    method = EarlyRobust.model_validate({**context.inputs["method"], **(context.stage.goal or {})})
    rows = load_rows(context)

    def start(device: torch.device) -> Search:
        model, encoded = load_model(context.inputs, rows, device)
        return Search(method, model, encoded, context.inputs["seed"], device)

    return extend(context, method, len(rows.train), start)


def extend(context: StageContext, method: EarlyBird, rows: int, start: Start) -> StageOutput:
    """Find the stop in what is stored; train on if it is not there yet."""
    ends = mini_epochs(method, rows)
    progress, stored = _stored(context)
    stop = _stop(progress.trajectory, method)
    if stop is None and len(progress.trajectory) < len(ends) and _STATE_FILE not in (stored or {}):
        progress, stored = _nothing(), None  # its state was pruned: what is beyond the scores starts afresh
    before = len(progress.trajectory)
    _replay(context, progress, method.drawing)
    if stop is None and before < len(ends):
        progress = _train_on(context, method, start, progress, stored)
        stop = _stop(progress.trajectory, method)
    context.attempt.put(TRAJECTORY_FILE, progress.trajectory.to_bytes())
    left_at = stop.mini_epoch if stop is not None else len(ends)
    return StageOutput(
        {
            "stop": left_at,
            "converged": stop is not None,
            "mini_epochs": len(ends),
            "computed_mini_epochs": len(progress.trajectory) - before,
            "training": training_cost(*progress.costs[left_at - 1], rows),
        }
    )


def _stop(trajectory: Trajectory, method: EarlyBird) -> Stop | None:
    if len(trajectory) == 0:
        return None
    return find_stop(trajectory, drawer(method.drawing), method.gamma, method.patience)


def _train_on(
    context: StageContext, method: EarlyBird, start: Start, progress: _Progress, stored: dict[str, bytes] | None
) -> _Progress:
    search = start(device_of(context.resources))
    if stored is not None:
        search.state.restore(stored[_STATE_FILE])
        search.trajectory, search.losses, search.costs = progress.trajectory, progress.losses, progress.costs

    def step_done(step: int) -> None:
        context.progress(step, search.ends[-1])
        context.keep(step, search.mini_epoch, lambda: _checkpoint(search))

    def mini_epoch_done() -> bool:
        _report(context, search.trajectory, search.losses, method.drawing)
        return _stop(search.trajectory, method) is not None

    search.run(mini_epoch_done, step_done)
    # A later trial with another ratio or gamma goes on from here.
    context.keep_now(search.state.step, search.mini_epoch, lambda: _checkpoint(search))
    return _Progress(search.trajectory, search.losses, search.costs)


def _checkpoint(search: Search) -> dict[str, Any]:
    files: dict[str, Any] = {
        TRAJECTORY_FILE: search.trajectory.to_bytes(),
        _LOSSES_FILE: json.dumps(search.losses).encode(),
        _COSTS_FILE: json.dumps(search.costs).encode(),
    }
    if len(search.trajectory) < len(search.ends):  # a finished trajectory cannot be extended
        files[_STATE_FILE] = search.state.parts()
    return files


def _stored(context: StageContext) -> tuple[_Progress, dict[str, bytes] | None]:
    stored = context.store.load_checkpoint(context.stage)
    if stored is None:
        return _nothing(), None
    trajectory = Trajectory.from_bytes(stored[TRAJECTORY_FILE])
    return _Progress(trajectory, json.loads(stored[_LOSSES_FILE]), json.loads(stored[_COSTS_FILE])), stored


def _nothing() -> _Progress:
    return _Progress(Trajectory.empty(0, 0, 0), [], [])


def _replay(context: StageContext, progress: _Progress, drawing: Drawing) -> None:
    """The history of a trial that reuses a trajectory is the same as if it had computed it."""
    for length in range(1, len(progress.trajectory) + 1):
        part = Trajectory(progress.trajectory.heads[:length], progress.trajectory.neurons[:length])
        _report(context, part, progress.losses[:length], drawing)


def _report(context: StageContext, trajectory: Trajectory, losses: list[float], drawing: Drawing) -> None:
    record: dict[str, float] = {"step": len(trajectory), "loss": losses[-1]}
    last_two = Trajectory(trajectory.heads[-2:], trajectory.neurons[-2:])
    for distance in distances(last_two, drawer(drawing)):
        record |= {"distance_heads": distance.heads, "distance_neurons": distance.neurons}
    context.report(record)
