"""The structured mask: which attention heads and intermediate neurons of each layer a ticket keeps."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.errors import StoreError


@dataclass(frozen=True, eq=False)
class StructuredMask:
    """`heads` is bool [layers, heads], `neurons` bool [layers, neurons]; True is kept. Both live on the CPU."""

    heads: Tensor
    neurons: Tensor

    def __post_init__(self) -> None:
        for kind, kept in (("heads", self.heads), ("neurons", self.neurons)):
            if kept.dtype != torch.bool or kept.ndim != 2 or kept.device.type != "cpu":
                raise StoreError(f"a mask of {kind} must be a bool matrix [layers, {kind}] on the CPU")
        if len(self.heads) != len(self.neurons):
            raise StoreError(f"a mask has {len(self.heads)} layers of heads, but {len(self.neurons)} of neurons")

    @classmethod
    def full(cls, layers: int, heads: int, neurons: int) -> "StructuredMask":
        """The mask that keeps everything: the dense model."""
        return cls(torch.ones(layers, heads, dtype=torch.bool), torch.ones(layers, neurons, dtype=torch.bool))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "StructuredMask":
        """The mask written by `tensors`."""
        return cls(tensors["heads"], tensors["neurons"])

    @classmethod
    def from_bytes(cls, content: bytes) -> "StructuredMask":
        """The mask written by `to_bytes`."""
        try:
            return cls.from_tensors(load(content))
        except (SafetensorError, KeyError) as error:
            raise StoreError(f"this is not a stored mask ({error}); delete it and draw the ticket again") from None

    def tensors(self) -> dict[str, Tensor]:
        """The two matrices by name."""
        return {"heads": self.heads, "neurons": self.neurons}

    def to_bytes(self) -> bytes:
        """The mask as a safetensors file."""
        return save({name: kept.contiguous() for name, kept in self.tensors().items()})

    def digest(self) -> str:
        """sha256 of shapes and bits: equal for equal masks."""
        content = hashlib.sha256()
        for name, kept in self.tensors().items():
            content.update(f"{name} {tuple(kept.shape)} ".encode())
            content.update(_packed(kept))
        return content.hexdigest()

    def heads_kept(self) -> tuple[int, ...]:
        """How many heads each layer keeps."""
        return tuple(self.heads.sum(dim=1).tolist())

    def neurons_kept(self) -> tuple[int, ...]:
        """How many neurons each layer keeps."""
        return tuple(self.neurons.sum(dim=1).tolist())

    @property
    def heads_sparsity(self) -> float:
        """Share of all heads that are cut, 0 to 1."""
        return 1 - int(self.heads.sum()) / self.heads.numel()

    @property
    def neurons_sparsity(self) -> float:
        """Share of all neurons that are cut, 0 to 1."""
        return 1 - int(self.neurons.sum()) / self.neurons.numel()


def _packed(kept: Tensor) -> bytes:
    bits = kept.flatten().to(torch.uint8)
    bits = torch.nn.functional.pad(bits, (0, -len(bits) % 8)).view(-1, 8)
    weights = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8)
    return bytes((bits * weights).sum(dim=1, dtype=torch.uint8).tolist())
