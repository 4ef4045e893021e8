"""Results that cannot be read: moved aside with the reason, never deleted, and computed again when needed."""

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
    """An upstream result is gone. `stage` computes it again; then the reader can be retried."""

    def __init__(self, stage: Stage, key: StageKey, reason: str) -> None:
        super().__init__(stage, key, reason)
        self.stage, self.key, self.reason = stage, key, reason

    def __str__(self) -> str:
        return f"{self.reason}; stage {self.key.name} has to be computed again"

    def check(self, again: StageResult) -> None:
        """Check that the recomputed result equals the lost one, because digests of later stages depend on it.

        Raises:
            StoreError: the content differs.
        """
        if again.key.content != self.key.content:
            raise StoreError(
                f"{self.reason}. Stage {self.key.name} was computed again with a different result: "
                "the device or the versions have changed. Start a new search on another store"
            )


def finished(store: Store, stage: Stage) -> StageResult | None:
    """Return the result of a stage or None. A damaged one is moved aside and counts as missing."""
    try:
        return store.result(stage)
    except Unreadable as damage:
        set_aside(store, damage.key, damage.reason)
        return None


def whole(store: Store, stage: Stage) -> bool:
    """Whether the result of a stage exists with all its files. A damaged one is moved aside."""
    found = finished(store, stage)
    return found is not None and _mend(store, found.key) is None


def lost(store: Store, damage: Unreadable) -> Lost | None:
    """Move a damaged result aside and return how to compute it again; None if its recipe is unknown.

    Several readers can find the same damage. A result that was repaired since is kept.
    """
    _mend(store, damage.key)
    stage = store.recipe(damage.key)
    if stage is None or not stage.recomputable:
        return None
    return Lost(stage, damage.key, damage.reason)


def to_recompute(store: Store, key: StageKey) -> Stage | None:
    """Return the stage that computes an incomplete result again. None if it is complete or its recipe is unknown."""
    try:
        found = store.require(key)
        flaw = next((state for _, state in file_states(store, found) if state != "sound"), None)
        damage = None if flaw is None else Unreadable(key, f"a file is {flaw}")
    except Unreadable as unreadable:
        damage = unreadable
    again = None if damage is None else lost(store, damage)
    return None if again is None else again.stage


def file_states(store: Store, result: StageResult) -> Iterator[tuple[str, FileState]]:
    """Yield the state of each file of a result. Every file is read completely."""
    for file in result.files:
        path, sha256 = store.blob(result, file)
        found = store.sha256(path)
        if found is None:
            yield file, "pruned" if file in store.pruned(path, file) else "missing"
        else:
            yield file, "sound" if found == sha256 else "changed"


def set_aside(store: Store, key: StageKey, reason: str) -> str:
    """Move a result and the files of its attempt to the quarantine, and return the new folder."""
    attempts: set[str] = set()
    try:
        found = store.find(key.name, key.digest, key.goal_digest)
        attempts = {path.split("/")[0] for path in (found.files.values() if found is not None else ())}
    except Unreadable:
        pass  # its attempt is unknown: `store prune` removes the files
    path = store.path(RESULT, key.name, key.digest, key.goal_digest)
    folder = store.folder(key.name, key.digest)
    # The result first: without it the stage counts as not done.
    return set_files_aside(store, [path, *(f"{folder}/{attempt}" for attempt in attempts)], reason)


def set_files_aside(store: Store, paths: list[str], reason: str) -> str:
    """Move files of one stage into a new folder of the quarantine, together with the reason."""
    stage = "/".join(paths[0].removeprefix(store.root).strip("/").split("/")[:2])
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    target = f"{store.root}/{QUARANTINE}/{stage}/{stamp}-{uuid.uuid4().hex[:8]}"
    for path in paths:
        store.move(path, f"{target}/{path.rsplit('/', 1)[1]}")
    store.write(f"{target}/reason.json", json.dumps({"stage": stage, "reason": reason, "at": stamp}).encode())
    return target


def _mend(store: Store, key: StageKey) -> str | None:
    """Move a result aside if it is damaged, and return the reason."""
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
