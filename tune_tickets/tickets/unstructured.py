"""The unstructured mask: which single weights a ticket keeps, and how training keeps the others at zero."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tune_tickets.errors import StoreError, TicketsError
from tune_tickets.tickets.gates import Attachment
from tune_tickets.tickets.mask import StructuredMask

_BITS = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8)


@dataclass(frozen=True, eq=False)
class UnstructuredMask:
    """`kept` holds one bool tensor per matrix, by the weight's name in the state dict; True is kept. On the CPU."""

    kept: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        if not self.kept:
            raise StoreError("an unstructured mask covers at least one matrix")
        for name, kept in self.kept.items():
            if kept.dtype != torch.bool or kept.device.type != "cpu":
                raise StoreError(f"the mask of {name} must be a bool tensor on the CPU")

    @classmethod
    def full(cls, shapes: Mapping[str, tuple[int, ...]]) -> "UnstructuredMask":
        """The mask that keeps everything."""
        return cls({name: torch.ones(shape, dtype=torch.bool) for name, shape in shapes.items()})

    @classmethod
    def from_bytes(cls, content: bytes) -> "UnstructuredMask":
        """The mask written by `to_bytes`."""
        try:
            tensors = load(content)
            names = [name.removesuffix("/bits") for name in sorted(tensors) if name.endswith("/bits")]
            return cls({name: _unpacked(tensors[f"{name}/bits"], tensors[f"{name}/shape"]) for name in names})
        except (SafetensorError, KeyError, RuntimeError) as error:
            raise StoreError(f"this is not a stored mask ({error}); delete it and draw the ticket again") from None

    def to_bytes(self) -> bytes:
        """The mask as a safetensors file of packed bits, eight weights to a byte."""
        tensors: dict[str, Tensor] = {}
        for name, kept in self.kept.items():
            tensors |= {f"{name}/bits": _packed(kept), f"{name}/shape": torch.tensor(kept.shape)}
        return save(tensors)

    def digest(self) -> str:
        """sha256 of names, shapes and bits: equal for equal masks."""
        content = hashlib.sha256()
        for name in sorted(self.kept):
            content.update(f"{name} {tuple(self.kept[name].shape)} ".encode())
            content.update(_packed(self.kept[name]).numpy().tobytes())
        return content.hexdigest()

    @property
    def sparsity(self) -> float:
        """Share of all covered weights that are cut, 0 to 1."""
        total = sum(kept.numel() for kept in self.kept.values())
        return 1 - sum(int(kept.sum()) for kept in self.kept.values()) / total

    def sparsities(self) -> dict[str, float]:
        """Share of weights cut in each matrix (RobustT Fig. 3)."""
        return {name: 1 - int(kept.sum()) / kept.numel() for name, kept in self.kept.items()}

    def weights_cut(self) -> int:
        """How many weights are cut in all."""
        return sum(int((~kept).sum()) for kept in self.kept.values())

    @torch.no_grad()
    def fold(self, weights: Mapping[str, Tensor]) -> None:
        """Set the cut weights to zero, in place. A folded model needs no mask."""
        for name, cut in self._cuts(weights).items():
            weights[name].masked_fill_(cut, 0.0)

    @contextmanager
    def laid_on(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Fold inside the block; afterwards the weights are restored."""
        before = {name: weights[name].detach().clone() for name in self.kept if name in weights}
        self.fold(weights)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, whole in before.items():
                    weights[name].copy_(whole)

    def hold(self, weights: Mapping[str, Tensor]) -> Attachment:
        """Fold, and keep the cut weights at exactly zero while an optimizer made afterwards trains.

        Their gradients are set to zero before any clipping, so momentum stays zero and decay changes nothing. The
        training loop is the same as for a dense model.
        """
        self.fold(weights)
        return Attachment([_clear_gradients(weights[name], cut) for name, cut in self._cuts(weights).items()])

    def _cuts(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        for name, kept in self.kept.items():
            if name not in weights or weights[name].shape != kept.shape:
                found = list(weights[name].shape) if name in weights else "nothing"
                raise TicketsError(
                    f"the mask has {list(kept.shape)} for {name}, the model {found}: it was drawn from another backbone"
                )
        return {name: (~kept).to(weights[name].device) for name, kept in self.kept.items()}


def _clear_gradients(weight: Tensor, cut: Tensor) -> RemovableHandle:
    def clear(parameter: Tensor) -> None:
        if parameter.grad is not None:
            parameter.grad.masked_fill_(cut, 0.0)

    handle: RemovableHandle = weight.register_post_accumulate_grad_hook(clear)  # type: ignore[no-untyped-call]
    return handle


def _packed(kept: Tensor) -> Tensor:
    bits = kept.flatten().to(torch.uint8)
    bits = nn.functional.pad(bits, (0, -len(bits) % 8)).view(-1, 8)
    return (bits * _BITS).sum(dim=1, dtype=torch.uint8)


def _unpacked(packed: Tensor, shape: Tensor) -> Tensor:
    sizes = [int(size) for size in shape]
    bits = (packed.unsqueeze(1) & _BITS) != 0
    return bits.flatten()[: int(torch.tensor(sizes).prod())].view(sizes).clone()


class MaskLooks:
    """Masks drawn during training, by the number of the look, eight weights to a byte, on the CPU."""

    def __init__(self, bits: Mapping[int, Tensor] | None = None) -> None:
        self.bits = {look: packed.cpu() for look, packed in (bits or {}).items()}

    @classmethod
    def from_bytes(cls, content: bytes) -> "MaskLooks":
        """The masks written by `to_bytes`."""
        try:
            return cls({int(look): packed for look, packed in load(content).items()})
        except (SafetensorError, ValueError) as error:
            raise StoreError(f"these are not stored masks ({error}); delete them and train the masks again") from None

    def to_bytes(self) -> bytes:
        """All masks as one safetensors file."""
        return save({str(look): packed for look, packed in self.bits.items()})

    def keep(self, look: int, mask: UnstructuredMask) -> None:
        """Add the mask of a look."""
        self.bits[look] = torch.frombuffer(bytearray(mask.to_bytes()), dtype=torch.uint8)

    def masks(self) -> Iterator[tuple[int, UnstructuredMask]]:
        """The masks in the order of the looks, one at a time: unpacked they are eight times as large."""
        for look in sorted(self.bits):
            yield look, UnstructuredMask.from_bytes(self.bits[look].numpy().tobytes())


Mask = StructuredMask | UnstructuredMask
"""The mask of a ticket: heads and neurons, or single weights."""
