"""The one training loop: searches, retraining and baselines differ only in what they put into a `Recipe`."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from tune_tickets.config.training import Adversary
from tune_tickets.models.seeding import derived_seed
from tune_tickets.training.adversary import backward
from tune_tickets.training.batches import Batch, Batches
from tune_tickets.training.losses import Loss
from tune_tickets.training.schedule import linear_factor, set_learning_rates
from tune_tickets.training.state import TrainState


@dataclass(frozen=True)
class Recipe:
    """All that decides a training run beside the state it starts from."""

    batches: Batches
    loss: Loss
    adversary: Adversary
    total_steps: int
    warmup: float
    clip: float
    seed: int
    penalty: Callable[[], Tensor] | None = None
    """Added to the loss once per optimizer step, not once per adversarial pass (EarlyRobust eq. 7)."""


def train(state: TrainState, recipe: Recipe) -> Iterator[tuple[int, Tensor]]:
    """Train to the last step, yielding after each (steps done, detached loss); stop early by leaving the loop.

    A step depends on the weights, the optimizer and (seed, step) alone: interrupted at any step and resumed, a run ends
    with the same bits, whatever random numbers are drawn between steps.
    """
    while state.step < recipe.total_steps:
        started = time.perf_counter()
        batch = recipe.batches[state.step]
        loss = _train_step(state, recipe, batch)
        state.step += 1
        state.row_passes += recipe.adversary.passes * len(batch["labels"])
        state.seconds += time.perf_counter() - started
        yield state.step, loss


def _train_step(state: TrainState, recipe: Recipe, batch: Batch) -> Tensor:
    state.model.train(True)
    set_learning_rates(state.optimizer, linear_factor(state.step, recipe.total_steps, recipe.warmup))
    noise = torch.Generator().manual_seed(derived_seed(recipe.seed, "noise", state.step))
    with _seeded(derived_seed(recipe.seed, "dropout", state.step), batch["input_ids"].device):
        loss = backward(state.model, batch, recipe.loss, recipe.adversary, noise)
    if recipe.penalty is not None:
        torch.autograd.backward(recipe.penalty())
    parameters = [parameter for group in state.optimizer.param_groups for parameter in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, recipe.clip)
    state.optimizer.step()
    state.optimizer.zero_grad()
    return loss


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Own global random numbers for dropout; the caller's are put back."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
