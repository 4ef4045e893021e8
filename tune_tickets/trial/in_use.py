"""A mark in the store while a search works on it, so that nothing is pruned under its feet."""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tune_tickets.errors import StoreError
from tune_tickets.trial.store import Store

IN_USE = "in-use"
BEAT_SECONDS = 30.0
STALE_SECONDS = 300.0
"""A driver that was killed leaves its mark behind; without a beat for so long it does not count."""


@contextmanager
def in_use(store: Store, results: Path) -> Iterator[None]:
    """Mark the store while the block lasts."""
    path = f"{store.root}/{IN_USE}/{uuid.uuid4().hex[:12]}.json"
    end = threading.Event()
    _mark(store, path, results)

    def beat() -> None:
        while not end.wait(BEAT_SECONDS):
            with suppress(OSError):  # a store out of reach for a while is the search's own trouble
                _mark(store, path, results)

    thread = threading.Thread(target=beat, name="store-in-use", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(timeout=10.0)
        with suppress(OSError):
            store.remove(path)


def searches_at_work(store: Store) -> list[str]:
    """Who works on the store now, in words."""
    found = []
    for path in store.files():
        if path.startswith(f"{IN_USE}/"):
            with suppress(StoreError, KeyError, TypeError, ValueError):  # cut off when its driver was killed
                mark = store.read_json(f"{store.root}/{path}")
                if time.time() - float(mark["at"]) < STALE_SECONDS:
                    found.append(f"{mark['results']} (process {mark['pid']} on {mark['host']})")
    return found


def _mark(store: Store, path: str, results: Path) -> None:
    mark = {"results": str(results), "host": socket.gethostname(), "pid": os.getpid(), "at": time.time()}
    store.write(path, json.dumps(mark).encode())
