"""Results that cannot be read back: set aside with the reason, never deleted, and computed again when wanted."""

import json
import time
import uuid
from collections.abc import Iterator
from typing import Literal

from tune_tickets.engine.stage import Stage, StageKey, StageResult
from tune_tickets.engine.store import RESULT, Store, Unreadable
from tune_tickets.errors import StoreError

QUARANTINE = "quarantine"
FileState = Literal["sound", "pruned", "missing", "changed"]


class Lost(StoreError):
    """What a stage reads is gone. `stage` says how to compute it again; then the reader can be tried once more."""

    def __init__(self, stage: Stage, key: StageKey, reason: str) -> None:
        super().__init__(stage, key, reason)
        self.stage, self.key, self.reason = stage, key, reason

    def __str__(self) -> str:
        return f"{self.reason}; stage {self.key.name} has to be computed again"

    def check(self, again: StageResult) -> None:
        """What was computed again must be what the readers were promised: their digests depend on it."""
        if again.key.content != self.key.content:
            raise StoreError(
                f"{self.reason}. Computed again, stage {self.key.name} {self.key.digest[:12]} came out differently: "
                "on another device or with other versions than before. Start a new search on another store"
            )


def finished(store: Store, stage: Stage) -> StageResult | None:
    """The result of a stage. One that was damaged is set aside, as if it had never been."""
    try:
        return store.result(stage)
    except Unreadable as damage:
        set_aside(store, damage.key, damage.reason)
        return None


def whole(store: Store, stage: Stage) -> bool:
    """Whether the result of a stage is there with all its files. One that was damaged is set aside."""
    found = finished(store, stage)
    return found is not None and _mend(store, found.key) is None


def lost(store: Store, damage: Unreadable) -> Lost | None:
    """Set aside what a reader could not read, and say how to compute it again; None if that cannot be told.

    Readers side by side find the same damage: what has been mended meanwhile stays where it is.
    """
    _mend(store, damage.key)
    stage = store.recipe(damage.key)
    if stage is None or not stage.recomputable:
        return None
    return Lost(stage, damage.key, damage.reason)


def to_recompute(store: Store, key: StageKey) -> Stage | None:
    """How to get back a result that is not whole; None if it is, or if that cannot be told."""
    try:
        found = store.require(key)
        flaw = next((state for _, state in file_states(store, found) if state != "sound"), None)
        damage = None if flaw is None else Unreadable(key, f"a file is {flaw}")
    except Unreadable as unreadable:
        damage = unreadable
    again = None if damage is None else lost(store, damage)
    return None if again is None else again.stage


def file_states(store: Store, result: StageResult) -> Iterator[tuple[str, FileState]]:
    """How the files of a result are, each read to its end."""
    for file in result.files:
        path, sha256 = store.blob(result, file)
        found = store.sha256(path)
        if found is None:
            yield file, "pruned" if file in store.pruned(path, file) else "missing"
        else:
            yield file, "sound" if found == sha256 else "changed"


def set_aside(store: Store, key: StageKey, reason: str) -> str:
    """Move a result with the files of its attempt out of the way; gives the folder they are in now."""
    attempts: set[str] = set()
    try:
        found = store.find(key.name, key.digest, key.goal_digest)
        attempts = {path.split("/")[0] for path in (found.files.values() if found is not None else ())}
    except Unreadable:
        pass  # which attempt it was cannot be told: its files stay and are swept up by `prune`
    path = store.path(RESULT, key.name, key.digest, key.goal_digest)
    folder = store.folder(key.name, key.digest)
    # The result first: without it the stage counts as not done.
    return set_files_aside(store, [path, *(f"{folder}/{attempt}" for attempt in attempts)], reason)


def set_files_aside(store: Store, paths: list[str], reason: str) -> str:
    """Move files and folders of one stage into a folder of their own in the quarantine, with the reason."""
    stage = "/".join(paths[0].removeprefix(store.root).strip("/").split("/")[:2])
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    target = f"{store.root}/{QUARANTINE}/{stage}/{stamp}-{uuid.uuid4().hex[:8]}"
    for path in paths:
        store.move(path, f"{target}/{path.rsplit('/', 1)[1]}")
    store.write(f"{target}/reason.json", json.dumps({"stage": stage, "reason": reason, "at": stamp}).encode())
    return target


def _mend(store: Store, key: StageKey) -> str | None:
    """Set a result aside if it is damaged; gives the reason."""
    reason: str | None = None
    try:
        found = store.find(key.name, key.digest, key.goal_digest)
        if found is not None:
            flaws = [f"{file} is {state}" for file, state in file_states(store, found) if state != "sound"]
            reason = ", ".join(flaws) or None
    except Unreadable as damage:
        reason = damage.reason
    if reason is not None:
        set_aside(store, key, reason)
    return reason
