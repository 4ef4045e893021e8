import json
import os

import pytest
import torch
from safetensors.torch import load, save

from tune_tickets.errors import ResourceError, StoreError
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket, TicketHeader, TicketMetadata, read_header, read_ticket, save_ticket

METADATA = TicketMetadata(
    backbone="bundled",
    backbone_fingerprint="ab" * 32,
    config={"model_type": "bert", "num_hidden_layers": 2},
    labels=("neg", "pos"),
    text_columns=("text",),
    max_length=64,
    method="earlyrobust",
    params={"method.gamma": 0.1, "nested": {"ü": [1, None]}},
    metrics={"clean": 81.25},
)


def sample() -> Ticket:
    return Ticket(
        weights={"b": torch.arange(6.0).view(2, 3), "a.weight": torch.zeros(0, 4), "half": torch.ones(3).bfloat16()},
        mask=StructuredMask(torch.tensor([[True, False]]), torch.tensor([[False, True, True]])),
        tokenizer_files={"tokenizer.json": b'{"a": 1}', "empty.txt": b""},
        metadata=METADATA,
    )


def rewritten(content: bytes, **changes) -> bytes:
    """The file with changed entries in its ticket document."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    document = json.loads(header["__metadata__"]["tune_tickets.ticket"]) | changes
    header["__metadata__"]["tune_tickets.ticket"] = json.dumps(document)
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + content[8 + length :]


def test_a_file_gives_back_all_that_was_saved(tmp_path):
    save_ticket(sample(), tmp_path / "new" / "a.ticket")
    found, wanted = read_ticket(tmp_path / "new" / "a.ticket"), sample()
    assert found.metadata == METADATA
    assert found.mask.digest() == wanted.mask.digest()
    assert found.tokenizer_files == wanted.tokenizer_files
    assert found.weights.keys() == wanted.weights.keys()
    for name, tensor in wanted.weights.items():
        assert found.weights[name].dtype == tensor.dtype
        assert torch.equal(found.weights[name], tensor)
    assert os.listdir(tmp_path / "new") == ["a.ticket"]


def test_equal_tickets_give_equal_bytes():
    first, second = sample(), sample()
    shuffled = Ticket(dict(reversed(second.weights.items())), second.mask, second.tokenizer_files, METADATA)
    assert first.to_bytes() == shuffled.to_bytes()


def test_it_is_a_plain_safetensors_file():
    tensors = load(sample().to_bytes())
    assert set(tensors) == {
        "weights/b", "weights/a.weight", "weights/half", "mask/heads", "mask/neurons",
        "tokenizer/tokenizer.json", "tokenizer/empty.txt",
    }  # fmt: skip


def test_any_changed_byte_is_noticed():
    content = sample().to_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 4
        # Padding spaces at the end of the header carry nothing; any other change must be seen.
        if content[position : position + 1] == b" " and content[position - 1 : position] in (b" ", b"}"):
            continue
        with pytest.raises(StoreError, match=r"my\.ticket"):
            Ticket.from_bytes(bytes(damaged), "my.ticket")


@pytest.mark.parametrize("length", [0, 4, 8, 100, -1])
def test_a_cut_file_is_refused(length):
    with pytest.raises(StoreError, match=r"my\.ticket is damaged or not a ticket"):
        Ticket.from_bytes(sample().to_bytes()[:length], "my.ticket")


def test_another_version_is_named():
    with pytest.raises(StoreError, match="ticket format 2, this release reads 1"):
        Ticket.from_bytes(rewritten(sample().to_bytes(), version=2), "my.ticket")


def test_changed_metadata_is_noticed():
    with pytest.raises(StoreError, match="does not match its own sha256"):
        Ticket.from_bytes(rewritten(sample().to_bytes(), metadata={"backbone": "other"}), "my.ticket")


def test_other_safetensors_files_are_told_apart():
    with pytest.raises(StoreError, match="a safetensors file, but not a ticket"):
        Ticket.from_bytes(save({"x": torch.ones(2)}), "model.safetensors")


def test_a_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(ResourceError, match=r"none\.ticket: No such file.*check the path"):
        read_ticket(tmp_path / "none.ticket")
    with pytest.raises(ResourceError, match="Is a directory"):
        read_ticket(tmp_path)


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    unwritable = Ticket(
        sample().weights, sample().mask, {}, METADATA.__class__(**{**vars(METADATA), "params": {"x": float("nan")}})
    )
    with pytest.raises(ValueError, match="JSON compliant"):
        save_ticket(unwritable, tmp_path / "a.ticket")
    assert os.listdir(tmp_path) == []


def test_the_header_tells_labels_and_heads_without_the_weights(tmp_path):
    path = tmp_path / "a.ticket"
    save_ticket(sample(), path)
    length = int.from_bytes(path.read_bytes()[:8], "little")
    path.write_bytes(path.read_bytes()[: 8 + length])
    assert read_header(path) == TicketHeader(labels=("neg", "pos"), heads=2, config=METADATA.config)


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"\2\0\0\0\0\0\0\0{}", b"\2\0\0\0\0\0\0\0[]"])
def test_a_damaged_header_is_named(tmp_path, content):
    (tmp_path / "a.ticket").write_bytes(content)
    with pytest.raises(StoreError, match=r"a\.ticket is damaged or not a ticket"):
        read_header(tmp_path / "a.ticket")
