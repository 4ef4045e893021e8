"""The length of a training, its learning-rate schedule, and which parameters get which rate and decay."""

import math
from typing import Any

import torch
from torch import nn

from tune_tickets.tickets.gates import Gates

MINI_EPOCH, LEAST_STEPS = 0.05, 4
"""A mini-epoch outside of searches: this share of an epoch, but at least so many steps."""


def total_steps(steps_per_epoch: int, epochs: float) -> int:
    """The number of optimizer steps. Epochs may be a fraction."""
    return max(1, _ceil(steps_per_epoch * epochs))


def mini_epoch_steps(steps_per_epoch: int, share: float = MINI_EPOCH, least: int = LEAST_STEPS) -> int:
    """The steps of a mini-epoch, rounded down. A kill costs at most so many."""
    return max(least, math.floor(round(share * steps_per_epoch, 6)))


def mini_epoch_ends(steps_per_epoch: int, epochs: float, share: float) -> tuple[int, ...]:
    """The step number (from 1) after which each mini-epoch of `share` epochs ends.

    The last end is the last step. If an epoch has fewer steps than mini-epochs, each mini-epoch has one step.
    """
    total = total_steps(steps_per_epoch, epochs)
    count = max(1, _ceil(epochs / share))
    ends = {min(total, max(1, _ceil(number * share * steps_per_epoch))) for number in range(1, count + 1)}
    return tuple(sorted(ends | {total}))


def linear_factor(step: int, total: int, warmup: float) -> float:
    """The share of the full learning rate at a step (from 0): linear warm-up to 1, then linear decay. It is never 0."""
    rising = int(warmup * total)
    if step < rising:
        return (step + 1) / (rising + 1)
    return (total - step) / (total - rising)


def build_optimizer(
    model: nn.Module,
    learning_rate: float,
    weight_decay: float,
    gates: Gates | None = None,
    coefficient_learning_rate: float | None = None,
) -> torch.optim.AdamW:
    """AdamW. Biases, LayerNorm and coefficients do not decay; the coefficients may have their own learning rate."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.ndim > 1], "lr": learning_rate, "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "lr": learning_rate, "weight_decay": 0.0},
    ]
    if gates is not None:
        rate = learning_rate if coefficient_learning_rate is None else coefficient_learning_rate
        groups.append({"params": list(gates.parameters()), "lr": rate, "weight_decay": 0.0})
    for group in groups:
        group["full_lr"] = group["lr"]
    # Fused: a tenth of the time on a CPU. The meta device has no such kernel.
    fused = trained[0].device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, fused=fused)


def set_learning_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group to `factor` times its full learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * factor


def _ceil(value: float) -> int:
    # 20 x 0.05 x 60 is a rounding error above 60.
    return math.ceil(round(value, 6))
