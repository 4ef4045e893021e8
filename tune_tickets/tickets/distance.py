"""When the search for a ticket may end: the distance between masks of consecutive mini-epochs (EarlyRobust 3.3.2)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.errors import StoreError
from tune_tickets.tickets.mask import StructuredMask

Draw = Callable[[Tensor, Tensor], StructuredMask]
"""From scores of heads and neurons to a mask: `drawing.draw` with its ratios and scopes filled in."""


@dataclass(frozen=True)
class MaskDistance:
    """Share of heads and of neurons in which two masks differ, 0 to 1."""

    heads: float
    neurons: float


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The scores at the end of every mini-epoch: `heads` [T, layers, heads] and `neurons` [T, layers, neurons]."""

    heads: Tensor
    neurons: Tensor

    @classmethod
    def empty(cls, layers: int, heads: int, neurons: int) -> "Trajectory":
        """The trajectory before the first mini-epoch has ended."""
        return cls(torch.empty(0, layers, heads), torch.empty(0, layers, neurons))

    @classmethod
    def from_bytes(cls, content: bytes) -> "Trajectory":
        """The trajectory written by `to_bytes`."""
        try:
            tensors = load(content)
            return cls(tensors["heads"], tensors["neurons"])
        except (SafetensorError, KeyError) as error:
            raise StoreError(f"this is not a stored trajectory ({error}); delete it and search again") from None

    def to_bytes(self) -> bytes:
        """The trajectory as a safetensors file."""
        return save({"heads": self.heads.contiguous(), "neurons": self.neurons.contiguous()})

    def __len__(self) -> int:
        return len(self.heads)

    def extended(self, heads: Tensor, neurons: Tensor) -> "Trajectory":
        """This trajectory and the scores of one more mini-epoch."""
        return Trajectory(
            torch.cat([self.heads, heads.detach().float().cpu().unsqueeze(0)]),
            torch.cat([self.neurons, neurons.detach().float().cpu().unsqueeze(0)]),
        )

    def mask(self, mini_epoch: int, draw: Draw) -> StructuredMask:
        """The ticket drawn at the end of a mini-epoch, counted from 1."""
        return draw(self.heads[mini_epoch - 1], self.neurons[mini_epoch - 1])


@dataclass(frozen=True)
class Stop:
    """Where a search ends: the mini-epoch (from 1) whose scores give the ticket, and all distances up to there."""

    mini_epoch: int
    distances: tuple[MaskDistance, ...]


def mask_distance(first: StructuredMask, second: StructuredMask) -> MaskDistance:
    """Normalised Hamming distance per kind."""
    return MaskDistance(
        int((first.heads != second.heads).sum()) / first.heads.numel(),
        int((first.neurons != second.neurons).sum()) / first.neurons.numel(),
    )


def distances(trajectory: Trajectory, draw: Draw) -> tuple[MaskDistance, ...]:
    """The distances between the masks of mini-epochs 1 and 2, 2 and 3, and so on.

    The start, where all scores are 1 and tie, is not compared.
    """
    masks = [trajectory.mask(mini_epoch, draw) for mini_epoch in range(1, len(trajectory) + 1)]
    return tuple(mask_distance(before, after) for before, after in pairwise(masks))


def find_stop(trajectory: Trajectory, draw: Draw, gamma: float, patience: int) -> Stop | None:
    """The first mini-epoch at which the distance of both kinds was smaller than gamma `patience` times in a row."""
    found = distances(trajectory, draw)
    in_a_row = 0
    for index, distance in enumerate(found):
        stable = distance.heads < gamma and distance.neurons < gamma
        in_a_row = in_a_row + 1 if stable else 0
        if in_a_row == patience:
            return Stop(mini_epoch=index + 2, distances=found[: index + 1])
    return None
