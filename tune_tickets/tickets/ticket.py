"""The ticket file: pruned and trained weights, mask, tokenizer and metadata in one safetensors file, without pickle.

Its data section starts after the usual safetensors header; the header's metadata holds one JSON document with the
format's version, a sha256 of all content and the fields of `TicketMetadata`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.errors import ResourceError, StoreError
from tune_tickets.files import write_atomic
from tune_tickets.tickets.mask import StructuredMask

VERSION = 1
_KEY = "tune_tickets.ticket"


@dataclass(frozen=True)
class TicketMetadata:
    """What a ticket file holds in addition to tensors. Every value can be written as JSON."""

    backbone: str
    backbone_fingerprint: str
    config: dict[str, Any]
    """The transformers configuration of the dense model."""
    labels: tuple[str, ...]
    text_columns: tuple[str, ...]
    max_length: int
    method: str
    params: dict[str, Any]
    metrics: dict[str, float]


@dataclass(frozen=True, eq=False)
class Ticket:
    """The content of a ticket file; `weights` have the physically pruned shapes."""

    weights: Mapping[str, Tensor]
    mask: StructuredMask
    tokenizer_files: Mapping[str, bytes]
    metadata: TicketMetadata

    def to_bytes(self) -> bytes:
        """The file's content; equal tickets give equal bytes."""
        header, data = _split(save(self._tensors()))
        document = {"version": VERSION, "metadata": asdict(self.metadata)}
        document["sha256"] = _digest(header, document, data)
        # One key only: safetensors does not keep the order of several.
        header["__metadata__"] = {_KEY: json.dumps(document, sort_keys=True, allow_nan=False)}
        encoded = json.dumps(header, separators=(",", ":")).encode()
        encoded += b" " * (-len(encoded) % 8)
        return len(encoded).to_bytes(8, "little") + encoded + data

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> "Ticket":
        """The ticket in a file's content; errors call the file `where`."""
        try:
            header, data = _split(content)
            tensors = load(content)
            document = json.loads(header.pop("__metadata__", {}).get(_KEY, "{}"))
        except (SafetensorError, ValueError, AttributeError) as error:
            raise StoreError(f"{where} is damaged or not a ticket ({error}); export the ticket again") from None
        if "version" not in document:
            raise StoreError(f"{where} is a safetensors file, but not a ticket; give the path of a ticket file")
        if document["version"] != VERSION:
            raise StoreError(
                f"{where} has ticket format {document['version']}, this release reads {VERSION}; "
                "load it with the release that wrote it, or export the ticket again"
            )
        if document.pop("sha256", None) != _digest(header, document, data):
            raise StoreError(f"{where} does not match its own sha256: it was changed or damaged; export it again")
        return cls._from_parts(_by_part(tensors), document["metadata"])

    @classmethod
    def _from_parts(cls, parts: dict[str, dict[str, Tensor]], metadata: dict[str, Any]) -> "Ticket":
        values = {field.name: metadata[field.name] for field in fields(TicketMetadata)}
        values |= {name: tuple(values[name]) for name in ("labels", "text_columns")}
        return cls(
            weights=parts["weights"],
            mask=StructuredMask.from_tensors(parts["mask"]),
            tokenizer_files={name: tensor.numpy().tobytes() for name, tensor in parts["tokenizer"].items()},
            metadata=TicketMetadata(**values),
        )

    def _tensors(self) -> dict[str, Tensor]:
        files = {name: _bytes_tensor(file) for name, file in self.tokenizer_files.items()}
        parts = {"weights": self.weights, "mask": self.mask.tensors(), "tokenizer": files}
        return {
            f"{part}/{name}": tensor.detach().cpu().contiguous()
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }


def save_ticket(ticket: Ticket, path: Path) -> None:
    """Write a ticket file; a reader sees all of it or nothing."""
    write_atomic(path, ticket.to_bytes())


def read_ticket(path: Path) -> Ticket:
    """Read and verify a ticket file.

    Raises:
        ResourceError: The file cannot be opened.
        StoreError: It is damaged, no ticket, or of another format version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResourceError(f"no ticket can be read at {path}: {error.strerror}; check the path") from None
    return Ticket.from_bytes(content, str(path))


@dataclass(frozen=True)
class TicketHeader:
    """What the first bytes of a ticket file say."""

    labels: tuple[str, ...]
    heads: int
    """Attention heads per layer of the dense model."""
    config: dict[str, Any]
    """The transformers configuration of the dense model."""


def read_header(path: Path) -> TicketHeader:
    """Read the header of a ticket file without its weights. Nothing is verified.

    Raises:
        StoreError: The file is no ticket.
    """
    try:
        with path.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        metadata = json.loads(header["__metadata__"][_KEY])["metadata"]
        return TicketHeader(tuple(metadata["labels"]), int(header["mask/heads"]["shape"][1]), dict(metadata["config"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise StoreError(f"{path} is damaged or not a ticket ({error}); export the ticket again") from None


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _digest(header: dict[str, Any], document: dict[str, Any], data: bytes) -> str:
    content = hashlib.sha256(json.dumps([header, document], sort_keys=True, allow_nan=False).encode())
    content.update(data)
    return content.hexdigest()


def _by_part(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "mask": {}, "tokenizer": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = tensor
    return parts


def _bytes_tensor(file: bytes) -> Tensor:
    # frombuffer refuses an empty buffer.
    return torch.frombuffer(bytearray(file), dtype=torch.uint8) if file else torch.empty(0, dtype=torch.uint8)
