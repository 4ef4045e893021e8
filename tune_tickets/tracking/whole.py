"""Databases that are there whole or not at all: their tables take seconds to make, and a driver can be killed then."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from tune_tickets.tracking.location import sqlite_path, sqlite_uri


def make_whole(uri: str, make: Callable[[str], None]) -> None:
    """Have a new SQLite database made beside its place and move it there; others, and one that is there, are left."""
    path = sqlite_path(uri)
    if path is None or path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with _not_waiting_for_the_disk():
            make(sqlite_uri(beside))
        with beside.open("rb") as made:
            os.fsync(made.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _not_waiting_for_the_disk() -> Iterator[None]:
    """Hundreds of migrations need not reach the disk one by one: nobody looks at the file before it is whole."""

    def relax(connection: Any, _: object) -> None:  # noqa: ANN401 - of whichever driver
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relax)
    try:
        yield
    finally:
        event.remove(Engine, "connect", relax)
