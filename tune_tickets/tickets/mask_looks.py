"""Masks that a mask training went through, as bits: what they are worth elsewhere can be asked when it is over."""

from collections.abc import Iterator, Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.errors import StoreError
from tune_tickets.tickets.unstructured import UnstructuredMask


class MaskLooks:
    """Masks by the number of the look at which they were drawn, eight weights to a byte, on the CPU."""

    def __init__(self, bits: Mapping[int, Tensor] | None = None) -> None:
        self.bits = {look: packed.cpu() for look, packed in (bits or {}).items()}

    @classmethod
    def from_bytes(cls, content: bytes) -> "MaskLooks":
        """What `to_bytes` has written."""
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
