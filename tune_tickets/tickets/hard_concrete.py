"""The hard concrete distribution of RobustT's masks (its eq. 1 to 5): gates in [0, 1] that can be exactly 0 or 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tune_tickets.errors import ConfigError

Mean = Literal["global", "tensor"]

CLAMP = 1e-4
"""u is kept in [CLAMP, 1 - CLAMP], so that its logit is finite."""


@dataclass(frozen=True)
class HardConcrete:
    """A binary concrete variable of this temperature (the paper's beta), stretched to (gamma, zeta) and clamped."""

    gamma: float = -0.1
    zeta: float = 1.1
    temperature: float = 2 / 3

    def __post_init__(self) -> None:
        if not (self.gamma < 0 and self.zeta > 1 and self.temperature > 0):
            raise ConfigError(
                f"hard concrete gates need gamma < 0, zeta > 1 and temperature > 0, "
                f"not {self.gamma:g}, {self.zeta:g} and {self.temperature:g}"
            )

    def log_alpha(self, expected_gate: float) -> float:
        """The log alpha whose deterministic gate is `expected_gate`, the start of mask training: 0.9 gives 1.609."""
        if not 0 < expected_gate < 1:
            raise ConfigError(f"the expected gate must lie between 0 and 1, not at {expected_gate:g}")
        share = (expected_gate - self.gamma) / (self.zeta - self.gamma)
        return math.log(share / (1 - share))

    def noise(self, u: Tensor) -> Tensor:
        """log(u / (1 - u)) of uniform numbers u, the part of eq. 2 without log alpha; computed in place."""
        return torch.logit_(u, CLAMP)

    def sample(self, log_alpha: Tensor, noise: Tensor) -> Tensor:
        """A gate per log alpha (eq. 2 and 3), differentiable where it is neither 0 nor 1."""
        gate: Tensor = _Sample.apply(log_alpha, noise, self)  # type: ignore[no-untyped-call]
        return gate

    def gate(self, log_alpha: Tensor) -> Tensor:
        """The gate without noise (eq. 5)."""
        return self._stretch(torch.sigmoid(log_alpha))

    def probability_alive(self, log_alpha: Tensor) -> Tensor:
        """The probability that a sampled gate is not exactly 0: a term of R(m) (eq. 4)."""
        return torch.sigmoid(log_alpha - self.temperature * math.log(-self.gamma / self.zeta))

    def probability_one(self, log_alpha: Tensor) -> Tensor:
        """The probability that a sampled gate is exactly 1."""
        return torch.sigmoid(log_alpha - self.temperature * math.log((1 - self.gamma) / (self.zeta - 1)))

    def penalty(self, log_alphas: Sequence[Tensor], mean: Mean = "global") -> Tensor:
        """R(m): the mean over all entries (eq. 4), or the mean of the tensors' means, as the paper's code has it."""
        if mean == "tensor":
            return torch.stack([self.probability_alive(log_alpha).mean() for log_alpha in log_alphas]).mean()
        entries = sum(log_alpha.numel() for log_alpha in log_alphas)
        return torch.stack([self.probability_alive(log_alpha).sum() for log_alpha in log_alphas]).sum() / entries

    def _stretch(self, share: Tensor) -> Tensor:
        return (share * (self.zeta - self.gamma) + self.gamma).clamp(0.0, 1.0)


class _Sample(torch.autograd.Function):
    """Eq. 2 and 3 in place, and their derivative from the gate alone.

    A base model has 85 million gates: a tensor per operation would cost more time than the operation.
    """

    @staticmethod
    def forward(ctx: Any, log_alpha: Tensor, noise: Tensor, distribution: HardConcrete) -> Tensor:  # noqa: ANN401
        width = distribution.zeta - distribution.gamma
        gate = (noise + log_alpha).div_(distribution.temperature).sigmoid_()
        gate = gate.mul_(width).add_(distribution.gamma).clamp_(0.0, 1.0)
        ctx.save_for_backward(gate)
        ctx.distribution = distribution
        return gate

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (gate,) = ctx.saved_tensors
        gamma, zeta, temperature = ctx.distribution.gamma, ctx.distribution.zeta, ctx.distribution.temperature
        # With s = (m - gamma) / (zeta - gamma) it is (zeta - gamma) s (1 - s) / temperature, and 0 at the ends.
        slope = (gate - gamma).mul_(zeta - gate).mul_(gradient).div_((zeta - gamma) * temperature)
        # The derivative of the clamp in one pass: six times as fast as filling where the gate is 0 or 1.
        return torch.ops.aten.hardtanh_backward(slope, gate, 0.0, 1.0), None, None


def shares_at_ends(gates: Sequence[Tensor]) -> tuple[float, float]:
    """The shares of gates at exactly 0 and at exactly 1, RobustT's sign that a mask has become binary."""
    entries = sum(gate.numel() for gate in gates)
    zeros = sum(int((gate == 0).sum()) for gate in gates)
    ones = sum(int((gate == 1).sum()) for gate in gates)
    return zeros / entries, ones / entries
