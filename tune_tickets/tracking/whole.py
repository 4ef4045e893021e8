"""Databases that are there whole or not at all: their tables take seconds to make, and a driver can be killed then."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

SQLITE = "sqlite:///"


def make_whole(uri: str, make: Callable[[str], None]) -> None:
    """Have a new SQLite database made beside its place and move it there; others, and one that is there, are left."""
    path = Path(uri.removeprefix(SQLITE))
    if not uri.startswith(SQLITE) or path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        make(f"{SQLITE}{beside.as_posix()}")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
