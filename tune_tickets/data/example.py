"""The one row type that training, attacks and evaluation see."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One labelled text, or pair of texts; `label` is an index into the task's label names."""

    texts: tuple[str, ...]
    label: int


def rows_digest(rows: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """16 hex digits that identify labelled texts and their order: paired figures need the same rows."""
    digest = hashlib.sha256()
    for texts, label in rows:
        digest.update(json.dumps([texts, label]).encode() + b"\n")
    return digest.hexdigest()[:16]
