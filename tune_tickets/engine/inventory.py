"""What a store holds: its stages, damaged files, and which searches use it now."""

import json
import os
import re
import socket
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tune_tickets.engine.quarantine import file_states, set_aside, set_files_aside
from tune_tickets.engine.stage import StageKey, StageResult
from tune_tickets.engine.store import CHECKPOINT, HISTORY, Store, Unreadable
from tune_tickets.errors import StoreError

_RESULT = re.compile(r"result(?:-(?P<goal>[0-9a-f]{16}))?\.json")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RECIPE = re.compile(r"stage(?:-(?P<goal>[0-9a-f]{16}))?\.json")


@dataclass(frozen=True)
class Entry:
    """The folder of one stage: the sizes of its files by relative path."""

    name: str
    digest: str
    files: dict[str, int]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    def results(self) -> Iterator[StageKey]:
        """The keys of its results. Of a goal only the part of its digest in the file name is known."""
        for file in self.files:
            if match := _RESULT.fullmatch(file):
                yield StageKey(self.name, self.digest, self.digest, match["goal"])


@dataclass(frozen=True)
class Flaw:
    """Something damaged: a result with its files, or single files of a stage."""

    name: str
    digest: str
    reason: str
    result: StageKey | None = None
    paths: tuple[str, ...] = ()

    def set_aside(self, store: Store) -> None:
        """Move it to the quarantine. It is computed again when it is needed."""
        if self.result is not None:
            set_aside(store, self.result, self.reason)
        else:
            set_files_aside(store, list(self.paths), self.reason)


def inventory(store: Store) -> list[Entry]:
    """Return all stages in a store, sorted by name."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for path, size in store.files().items():
        parts = path.split("/", 2)
        if len(parts) == 3 and _DIGEST.fullmatch(parts[1]):
            found[parts[0], parts[1]][parts[2]] = size
    return [Entry(*key, files) for key, files in sorted(found.items())]


def verify(store: Store, entries: list[Entry], progress: Callable[[int, int], None]) -> list[Flaw]:
    """Read every file of the store, compare it with its digest, and return what is damaged."""
    flaws: list[Flaw] = []
    for done, entry in enumerate(entries, start=1):
        flaws += _flaws(store, entry)
        progress(done, len(entries))
    return flaws


def readable(store: Store, entry: Entry) -> list[StageResult]:
    """Return the readable results of a stage."""
    found = []
    for key in entry.results():
        try:
            found.append(store.require(key))
        except Unreadable:
            continue
    return found


def _flaws(store: Store, entry: Entry) -> Iterator[Flaw]:
    for key in entry.results():
        try:
            states = file_states(store, store.require(key))
            bad = [f"{file} is {state}" for file, state in states if state in ("missing", "changed")]
        except Unreadable as damage:
            bad = [damage.reason]
        if bad:
            yield Flaw(entry.name, entry.digest, ", ".join(bad), result=key)
    folder = store.folder(entry.name, entry.digest)
    for file in entry.files:
        if reason := _unfit(store, entry, f"{folder}/{file}", file):
            yield Flaw(entry.name, entry.digest, f"{file} {reason}", paths=(f"{folder}/{file}",))
    if (pointer := store.checkpoint(folder)) is not None:
        part, files = pointer
        bad = [file for file, checksum in files.items() if store.checksum(f"{folder}/{part}/{file}") != checksum]
        if bad and store.checkpoint(folder) == pointer:  # a running stage may have replaced it since
            paths = (f"{folder}/{CHECKPOINT}", f"{folder}/{part}")
            yield Flaw(
                entry.name, entry.digest, f"{', '.join(bad)} of the checkpoint is not what was saved", paths=paths
            )


def _unfit(store: Store, entry: Entry, path: str, file: str) -> str | None:
    """What is wrong with a file that has no digest of its own, or None. The file may disappear while it is read."""
    recipe = _RECIPE.fullmatch(file)
    kinds: dict[str, type] = {HISTORY: list, CHECKPOINT: dict, **({file: dict} if recipe else {})}
    try:
        if file not in kinds or (found := store.read_json(path)) is None:
            return None
        if not isinstance(found, kinds[file]):
            return "is not readable"
        if recipe is None or _describes(store, entry, path, recipe["goal"]):
            return None
    except (StoreError, KeyError, TypeError, AttributeError):
        return "is not readable"
    return "does not match the digest of its stage: it was changed or damaged"


def _describes(store: Store, entry: Entry, path: str, goal: str | None) -> bool:
    """Whether a recipe belongs to its stage, as far as this version of the code can tell."""
    stage, version = store.described(path)
    digest = entry.digest if version is None else stage.digest_at(version)
    aim = None if stage.goal_digest is None else stage.goal_digest[:16]
    return (stage.name, digest, aim) == (entry.name, entry.digest, goal)


IN_USE = "in-use"
BEAT_SECONDS = 30.0
STALE_SECONDS = 300.0
"""A killed driver leaves its mark behind. A mark without a heartbeat for this time is ignored."""


@contextmanager
def in_use(store: Store, results: Path) -> Iterator[None]:
    """Mark the store as used during the block, so that nothing is removed from it."""
    path = f"{store.root}/{IN_USE}/{uuid.uuid4().hex[:12]}.json"
    end = threading.Event()
    _mark(store, path, results)

    def beat() -> None:
        while not end.wait(BEAT_SECONDS):
            with suppress(OSError):  # an unreachable store is reported by the search itself
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
    """Return which searches use the store now, in words."""
    found = []
    for path in store.files():
        if path.startswith(f"{IN_USE}/"):
            with suppress(
                StoreError, KeyError, TypeError, ValueError
            ):  # a mark can be incomplete if its driver was killed
                mark = store.read_json(f"{store.root}/{path}")
                if time.time() - float(mark["at"]) < STALE_SECONDS:
                    found.append(f"{mark['results']} (process {mark['pid']} on {mark['host']})")
    return found


def _mark(store: Store, path: str, results: Path) -> None:
    mark = {"results": str(results), "host": socket.gethostname(), "pid": os.getpid(), "at": time.time()}
    store.write(path, json.dumps(mark).encode())
