"""A memory on disk that all attacks of a machine share: a text model is asked once, not once per trial."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value", bytes, str)
_log = logging.getLogger(__name__)
_AT_ONCE = 500
_WAIT_SECONDS = 5.0
_REMEMBERED = 2**16
"""Answers kept in the process; the others are read again from disk."""


class Memory(Generic[Value]):
    """Answers by question, in one SQLite file. It only ever saves time: whatever is wrong with it, attacks go on."""

    def __init__(self, path: Path) -> None:
        self._known: dict[bytes, Value] = {}
        self._disk = _opened(path)

    def answers(self, questions: Sequence[tuple[str, ...]], compute: Callable[[list[int]], list[Value]]) -> list[Value]:
        """The answer to each question; `compute` is given the places of those that nobody has asked before."""
        keys = [_key(question) for question in questions]
        if len(self._known) + len(keys) > _REMEMBERED:
            self._known.clear()
        self._recall([key for key in dict.fromkeys(keys) if key not in self._known])
        place = {key: place for place, key in enumerate(keys) if key not in self._known}
        if place:
            new = dict(zip(place, compute(list(place.values())), strict=True))
            self._known.update(new)
            self._keep(new)
        return [self._known[key] for key in keys]

    def _recall(self, keys: Sequence[bytes]) -> None:
        for start in range(0, len(keys) if self._disk else 0, _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            self._known.update(self._ask(f"SELECT key, value FROM answers WHERE key IN ({marks})", some))

    def _ask(self, statement: str, keys: Sequence[bytes]) -> list[tuple[bytes, Value]]:
        try:
            return self._disk.execute(statement, keys).fetchall() if self._disk else []
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _keep(self, new: dict[bytes, Value]) -> None:
        if self._disk:
            try:
                with self._disk:
                    self._disk.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", list(new.items()))
            except sqlite3.Error as error:
                self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> None:
        _log.warning("the memory of the attacks is not used any more in this process: %s", error)
        self._disk = None


def _key(question: tuple[str, ...]) -> bytes:
    parts = "\0".join(f"{len(part)} {part}" for part in question)
    return blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _opened(path: Path) -> sqlite3.Connection | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
        disk.execute("PRAGMA journal_mode=WAL")
        disk.execute("PRAGMA synchronous=OFF")  # what a crash loses is computed again
        disk.execute("CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, value) WITHOUT ROWID")
        return disk
    except (OSError, sqlite3.Error) as error:
        _log.warning("attacks go on without a memory on disk, %s cannot be used: %s", path, error)
        return None
