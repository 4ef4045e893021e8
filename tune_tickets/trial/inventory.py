"""What lies in a store, by stage, and whether it is what was written."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tune_tickets.errors import StoreError
from tune_tickets.trial.quarantine import file_states, set_aside, set_files_aside
from tune_tickets.trial.stage import VERSIONS, StageKey, StageResult
from tune_tickets.trial.store import CHECKPOINT, HISTORY, Store, Unreadable

_RESULT = re.compile(r"result(?:-(?P<goal>[0-9a-f]{16}))?\.json")
_RECIPE = re.compile(r"stage(?:-[0-9a-f]{16})?\.json")


@dataclass(frozen=True)
class Entry:
    """The folder of one stage: its files with their sizes, by the path below it."""

    name: str
    digest: str
    files: dict[str, int]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    def results(self) -> Iterator[StageKey]:
        """Where its results lie; a goal is known by the part of its digest that is in the name of the file."""
        for file in self.files:
            if match := _RESULT.fullmatch(file):
                yield StageKey(self.name, self.digest, self.digest, match["goal"])


@dataclass(frozen=True)
class Flaw:
    """Something that is not what was written: a result with its files, or single files of a stage."""

    name: str
    digest: str
    reason: str
    result: StageKey | None = None
    paths: tuple[str, ...] = ()

    def set_aside(self, store: Store) -> None:
        """Move it to the quarantine: it is computed again when it is wanted."""
        if self.result is not None:
            set_aside(store, self.result, self.reason)
        else:
            set_files_aside(store, list(self.paths), self.reason)


def inventory(store: Store) -> list[Entry]:
    """All stages in a store, in the order of the pipeline."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for path, size in store.files().items():
        parts = path.split("/", 2)
        if len(parts) == 3 and parts[0] in VERSIONS:
            found[parts[0], parts[1]][parts[2]] = size
    order = list(VERSIONS)
    return [Entry(*key, files) for key, files in sorted(found.items(), key=lambda item: order.index(item[0][0]))]


def verify(store: Store, entries: list[Entry], progress: Callable[[int, int], None]) -> list[Flaw]:
    """Read every file of the store and compare it with its digest."""
    flaws: list[Flaw] = []
    for done, entry in enumerate(entries, start=1):
        flaws += _flaws(store, entry)
        progress(done, len(entries))
    return flaws


def readable(store: Store, entry: Entry) -> list[StageResult]:
    """The results of a stage that can be read."""
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
        kind = dict if _RECIPE.fullmatch(file) else {HISTORY: list, CHECKPOINT: dict}.get(file)
        if kind is not None and not _is(store, f"{folder}/{file}", kind):
            yield Flaw(entry.name, entry.digest, f"{file} is not readable", paths=(f"{folder}/{file}",))
    if (pointer := store.checkpoint(folder)) is not None:
        part, files = pointer
        bad = [file for file, sha256 in files.items() if store.sha256(f"{folder}/{part}/{file}") != sha256]
        if bad and store.checkpoint(folder) == pointer:  # a running stage may have replaced it meanwhile
            paths = (f"{folder}/{CHECKPOINT}", f"{folder}/{part}")
            yield Flaw(
                entry.name, entry.digest, f"{', '.join(bad)} of the checkpoint is not what was saved", paths=paths
            )


def _is(store: Store, path: str, kind: type) -> bool:
    try:
        return isinstance(store.read_json(path), kind | None)
    except StoreError:
        return False
