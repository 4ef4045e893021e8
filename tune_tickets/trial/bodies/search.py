"""Stage `search`: extend the stored trajectory as far as the goal needs, and say where to leave it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tune_tickets.config.early_bird import Drawing, EarlyBird
from tune_tickets.config.method import EarlyRobust
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.earlyrobust import Search, drawer, mini_epochs
from tune_tickets.tickets.distance import Stop, Trajectory, distances, find_stop
from tune_tickets.trial.backbone import device_of, load_model
from tune_tickets.trial.rows import load_rows

TRAJECTORY_FILE = "trajectory.safetensors"
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


def run(context: StageContext) -> StageOutput:
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
