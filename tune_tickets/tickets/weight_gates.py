"""Hard-concrete gates on the weight matrices of a model, by parametrization (RobustT section 3.2)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tune_tickets.tickets.hard_concrete import HardConcrete, Mean, shares_at_ends


class GatedMatrix(nn.Module):
    """The gates of one matrix: sampled in training mode, without noise in eval mode.

    `log_alpha` has the shape of the matrix, or [1, groups] where one gate covers the columns of a head or a neuron.
    """

    def __init__(
        self, shape: tuple[int, ...], start: float, distribution: HardConcrete, uniform: "_Uniform", keep: bool
    ) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full(shape, start, dtype=torch.float32, device=uniform.device))
        self._distribution = distribution
        self._uniform = uniform
        self._keep = keep
        self._kept: Tensor | None = None

    def forward(self, weight: Tensor) -> Tensor:
        """The matrix times its gates."""
        gate = self.gate()
        if gate.shape != weight.shape:
            gate = gate.repeat_interleave(weight.shape[1] // gate.shape[1], dim=1)
        return weight * gate

    def gate(self) -> Tensor:
        """The gates as they act now."""
        if not self.training:
            return self._distribution.gate(self.log_alpha)
        return self._distribution.sample(self.log_alpha, self._noise())

    def forget_noise(self) -> None:
        """Draw new noise at the next pass, even if noise is kept."""
        self._kept = None

    def _noise(self) -> Tensor:
        if self._kept is not None:
            return self._kept
        noise = self._distribution.noise(self._uniform.draw(self.log_alpha))
        if self._keep:
            self._kept = noise
        return noise


class WeightGates(nn.Module):
    """The gates of all masked matrices of a model, by the matrix's name; all start at the same expected gate.

    Noise is new at every pass, or kept from one `renew` to the next with `keep_noise`: an own buffer, because
    `parametrize.cached` cannot span FreeLB's several backward passes.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        distribution: HardConcrete,
        expected_gate: float = 0.9,
        keep_noise: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.names = tuple(shapes)
        self.distribution = distribution
        self._uniform = _Uniform(torch.device(device))
        start = distribution.log_alpha(expected_gate)
        self.matrices = nn.ModuleList(
            GatedMatrix(shapes[name], start, distribution, self._uniform, keep_noise) for name in self.names
        )

    def renew(self, seed: int) -> None:
        """Draw new noise, a function of this seed alone. Call it before every optimizer step."""
        self._uniform.seed(seed)
        for matrix in self._matrices():
            matrix.forget_noise()

    @contextmanager
    def attached(self, linears: Mapping[str, nn.Linear]) -> Iterator[None]:
        """Let the gates act on the weights of these linears inside the block; the weights themselves do not change."""
        with parametrized({linears[name]: matrix for name, matrix in zip(self.names, self.matrices, strict=True)}):
            yield

    def penalty(self, mean: Mean = "global") -> Tensor:
        """R(m), RobustT eq. 4."""
        return self.distribution.penalty([matrix.log_alpha for matrix in self._matrices()], mean)

    @torch.no_grad()
    def shares_at_ends(self) -> tuple[float, float]:
        """The shares of gates (without noise) at exactly 0 and exactly 1."""
        return shares_at_ends([self.distribution.gate(matrix.log_alpha) for matrix in self._matrices()])

    def scores(self) -> dict[str, Tensor]:
        """A copy of log alpha by name on the CPU: what tickets are drawn by, at any sparsity."""
        return {
            name: matrix.log_alpha.detach().to("cpu", copy=True)
            for name, matrix in zip(self.names, self._matrices(), strict=True)
        }

    def _matrices(self) -> list[GatedMatrix]:
        return [matrix for matrix in self.matrices if isinstance(matrix, GatedMatrix)]


@contextmanager
def parametrized(matrices: Mapping[nn.Linear, nn.Module]) -> Iterator[None]:
    """Compute the weights of linears through modules inside the block; the weights themselves do not change."""
    for linear, matrix in matrices.items():
        parametrize.register_parametrization(linear, "weight", matrix)
    try:
        yield
    finally:
        for linear in matrices:
            parametrize.remove_parametrizations(linear, "weight", leave_parametrized=False)


class _Uniform:
    """Uniform numbers from a separate generator, so that dropout does not change them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # The meta device has no generators.
        self._generator = torch.Generator("cpu" if device.type == "meta" else device)

    def seed(self, seed: int) -> None:
        self._generator.manual_seed(seed)

    def draw(self, like: Tensor) -> Tensor:
        numbers = torch.rand(like.shape, generator=self._generator, dtype=like.dtype, device=self._generator.device)
        return numbers.to(like.device)
