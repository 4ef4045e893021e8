"""Checkpoints as the store keeps them."""

import io

import torch


def to_bytes(parts: dict) -> bytes:
    """The parts of a checkpoint as a file."""
    stream = io.BytesIO()
    torch.save(parts, stream)
    return stream.getvalue()
