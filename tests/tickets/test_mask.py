import hashlib

import pytest
import torch

from tune_tickets.errors import StoreError
from tune_tickets.tickets.mask import StructuredMask


def mask(heads, neurons) -> StructuredMask:
    return StructuredMask(torch.tensor(heads, dtype=torch.bool), torch.tensor(neurons, dtype=torch.bool))


SAMPLE = mask([[1, 0, 1], [0, 0, 1]], [[1, 1, 0, 1, 0], [0, 0, 0, 0, 0]])


def test_counts_and_sparsity_by_hand():
    assert SAMPLE.heads_kept() == (2, 1)
    assert SAMPLE.neurons_kept() == (3, 0)
    assert SAMPLE.heads_sparsity == 0.5
    assert SAMPLE.neurons_sparsity == pytest.approx(0.7)


def test_the_digest_is_the_hash_of_shapes_and_packed_bits():
    # heads 101001 -> 10100100, neurons 1101000000 -> 11010000 00000000
    content = b"heads (2, 3) " + bytes([0b10100100]) + b"neurons (2, 5) " + bytes([0b11010000, 0])
    assert SAMPLE.digest() == hashlib.sha256(content).hexdigest()


def test_any_other_bit_or_shape_gives_another_digest():
    digests = {SAMPLE.digest(), StructuredMask.full(2, 3, 5).digest(), StructuredMask.full(3, 2, 5).digest()}
    for tensor in ("heads", "neurons"):
        for index in range(getattr(SAMPLE, tensor).numel()):
            parts = {name: part.clone() for name, part in SAMPLE.tensors().items()}
            parts[tensor].view(-1)[index] ^= True
            digests.add(StructuredMask.from_tensors(parts).digest())
    assert len(digests) == 3 + 6 + 10


def test_bytes_bring_the_mask_back():
    again = StructuredMask.from_bytes(SAMPLE.to_bytes())
    assert torch.equal(again.heads, SAMPLE.heads)
    assert torch.equal(again.neurons, SAMPLE.neurons)


def test_the_full_mask_keeps_everything():
    full = StructuredMask.full(2, 3, 5)
    assert full.heads_kept() == (3, 3)
    assert full.neurons_kept() == (5, 5)
    assert full.heads_sparsity == full.neurons_sparsity == 0


@pytest.mark.parametrize("content", [b"", b"no mask at all", StructuredMask.full(1, 1, 1).to_bytes()[:-1]])
def test_damaged_bytes_are_refused(content):
    with pytest.raises(StoreError, match="not a stored mask"):
        StructuredMask.from_bytes(content)


def test_masks_of_the_wrong_form_are_refused():
    with pytest.raises(StoreError, match="bool matrix"):
        StructuredMask(torch.ones(2, 3), torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(StoreError, match="2 layers of heads, but 3"):
        StructuredMask(torch.ones(2, 3, dtype=torch.bool), torch.ones(3, 5, dtype=torch.bool))
