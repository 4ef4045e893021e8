"""Straight-through masks: real-valued masks that are binarised in the forward pass (SRNets section 3.2.2).

A weight is kept where its real-valued mask reaches the threshold φ of its matrix; the gradient of the binary mask is
passed to the real-valued mask unchanged.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tune_tickets.tickets.drawing import cut_count, keep_highest
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.tickets.weight_gates import parametrized

Init = Literal["hard", "soft"]


class Binarise(torch.autograd.Function):
    """SRNets eq. 1 forward; backward the identity."""

    @staticmethod
    def forward(context: Any, real: Tensor, threshold: Tensor) -> Tensor:  # noqa: ANN401
        """1 where the real-valued mask reaches the threshold, else 0."""
        return (real >= threshold).to(real.dtype)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        """∂L/∂m̂ := ∂L/∂m."""
        return gradient, None


class MaskedMatrix(nn.Module):
    """The real-valued mask m̂ of one matrix and its threshold φ."""

    threshold: Tensor

    def __init__(self, real: Tensor, threshold: float) -> None:
        super().__init__()
        self.real = nn.Parameter(real)
        self.register_buffer("threshold", torch.tensor(threshold, dtype=real.dtype, device=real.device))
        self.fixed: Tensor | None = None
        """A binary mask to use instead of that of m̂."""

    def forward(self, weight: Tensor) -> Tensor:
        """The matrix times its binary mask."""
        mask: Tensor = Binarise.apply(self.real, self.threshold) if self.fixed is None else self.fixed  # type: ignore[no-untyped-call]
        return weight * mask

    @torch.no_grad()
    def set_sparsity(self, sparsity: float) -> None:
        """Set φ so that exactly ceil(sparsity x N) entries are below it, or fewer if entries are equal to φ."""
        entries = self.real.flatten()
        below = min(cut_count(sparsity, len(entries)), len(entries) - 1)
        self.threshold.copy_(entries.kthvalue(below + 1).values)


class StraightThroughMasks(nn.Module):
    """The masks of all masked matrices of a model, by the matrix's name; every matrix has the same sparsity."""

    def __init__(self, weights: Mapping[str, Tensor], sparsity: float, init: Init, phi: float, alpha: float) -> None:
        super().__init__()
        self.names = tuple(weights)
        self.matrices = nn.ModuleList(
            MaskedMatrix(_start(weight.detach(), sparsity, init, alpha * phi), phi) for weight in weights.values()
        )
        if init == "soft":
            self.set_sparsity(sparsity)

    def set_sparsity(self, sparsity: float) -> None:
        """Set the threshold of every matrix for this sparsity (appendix Algorithm 2, line 15)."""
        for matrix in self._matrices():
            matrix.set_sparsity(sparsity)

    @contextmanager
    def attached(self, linears: Mapping[str, nn.Linear]) -> Iterator[None]:
        """Let the masks act on these linears' weights; the weights themselves do not change."""
        with parametrized({linears[name]: matrix for name, matrix in zip(self.names, self.matrices, strict=True)}):
            yield

    @contextmanager
    def fixed(self, mask: UnstructuredMask) -> Iterator[None]:
        """Use a binary mask inside the block instead."""
        for name, matrix in zip(self.names, self._matrices(), strict=True):
            matrix.fixed = mask.kept[name].to(matrix.real)
        try:
            yield
        finally:
            for matrix in self._matrices():
                matrix.fixed = None

    def scores(self) -> dict[str, Tensor]:
        """A copy of m̂ by name on the CPU, from which masks of any sparsity are drawn."""
        return {
            name: matrix.real.detach().to("cpu", copy=True)
            for name, matrix in zip(self.names, self._matrices(), strict=True)
        }

    def _matrices(self) -> list[MaskedMatrix]:
        return [matrix for matrix in self.matrices if isinstance(matrix, MaskedMatrix)]


def _start(weight: Tensor, sparsity: float, init: Init, kept_at: float) -> Tensor:
    """m̂ by magnitude: |W| (appendix eq. 2), or 0 for the s smallest and αφ for all others (eq. 1)."""
    magnitude = weight.abs()
    if init == "soft":
        return magnitude
    return keep_highest(magnitude.flatten(), sparsity).view_as(weight) * torch.full_like(weight, kept_at)
