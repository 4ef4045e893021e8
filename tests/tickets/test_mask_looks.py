"""The masks saved during a mask training, in one file."""

import pytest
import torch
from safetensors.torch import save

from tune_tickets.errors import StoreError
from tune_tickets.tickets.unstructured import MaskLooks, UnstructuredMask


def mask(seed: int) -> UnstructuredMask:
    drawn = torch.rand(100, 81, generator=torch.Generator().manual_seed(seed)) < 0.3
    return UnstructuredMask({"a.weight": drawn, "b.weight": ~drawn[:3]})


def test_masks_come_back_in_the_order_of_their_looks_at_a_bit_for_a_weight():
    looks = MaskLooks()
    for look in (2, 9, 10):
        looks.keep(look, mask(look))
    content = looks.to_bytes()
    back = list(MaskLooks.from_bytes(content).masks())
    assert [look for look, _ in back] == [2, 9, 10]
    assert [found.digest() for _, found in back] == [mask(look).digest() for look in (2, 9, 10)]
    # 8,343 bits are 1,044 bytes; names and shapes come on top.
    assert len(content) < 3 * (1044 + 500)


@pytest.mark.parametrize("content", [b"nonsense", save({"first": torch.zeros(1, dtype=torch.uint8)})])
def test_something_else_is_not_taken_for_masks(content):
    with pytest.raises(StoreError, match="masks"):
        MaskLooks.from_bytes(content)
