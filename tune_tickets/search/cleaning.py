"""What can be removed from a store: weights that no experiment shows, and files of unfinished work."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from tune_tickets.config.method import built_in_methods
from tune_tickets.engine.inventory import IN_USE, STALE_SECONDS, Entry, readable
from tune_tickets.engine.node import NODES
from tune_tickets.engine.stage import ExtensibleStage, kind_of_stage
from tune_tickets.engine.store import BROKERS, CHECKPOINT, PRUNED, Store
from tune_tickets.errors import TicketsError
from tune_tickets.files import WRITING
from tune_tickets.results.folder import Results
from tune_tickets.results.objective import front
from tune_tickets.results.records import Confirmation, ControlRecord, EpochsRecord, Outcome, StageRecord, TrialRecord
from tune_tickets.results.summary import read_summary


@dataclass(frozen=True)
class StoreUser:
    """An experiment, and the digests of the stages that it uses and shows."""

    folder: Path
    uses: frozenset[str]
    shows: frozenset[str]
    """Stages of the front, of the selected ticket and of its controls."""
    last: float
    """Time of the last change, in seconds since 1970."""


def store_users(place: Path) -> list[StoreUser]:
    """Return the experiments in a folder, below it, or next to it if it is one itself; the latest first."""
    place = place.expanduser().resolve()
    folders = [place, *_below(place)]
    if (place / "config.yaml").is_file():
        folders += [folder for folder in _below(place.parent) if folder != place]
    found = [_user(Results(folder, "")) for folder in folders if (folder / "config.yaml").is_file()]
    return sorted(found, key=lambda user: user.last, reverse=True)


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _user(results: Results) -> StoreUser:
    trials = {trial.id: trial for trial in results.read_trials()}
    controls: tuple[ControlRecord, ...] = ()
    epochs: tuple[EpochsRecord, ...] = ()
    selected = None
    with suppress(TicketsError):  # a running or interrupted search has no summary
        summary = read_summary(results.folder)
        trials = {trial.id: trial for trial in summary.trials} | trials
        controls, epochs, selected = summary.controls, summary.epochs, summary.selected.trial
    compared = [control for control in controls if control.like is None]
    shown: list[TrialRecord | ControlRecord] = [*front(list(trials.values())), *compared]
    if selected in trials:
        shown.append(trials[selected])
    files = [path for path in results.folder.iterdir() if path.is_file()]
    return StoreUser(
        results.folder,
        uses=_digests([*trials.values(), *controls]) | _by_epoch(epochs) | _confirmed(results),
        shows=_digests(shown),
        last=max(path.stat().st_mtime for path in files),
    )


def _digests(records: Iterable[TrialRecord | ControlRecord]) -> frozenset[str]:
    return frozenset(stage.digest for record in records for stage in (*record.stages, *_of_transfers(record.outcome)))


def _of_transfers(outcome: Outcome | None) -> Iterator[StageRecord]:
    for transfer in outcome.transfers if outcome is not None else ():
        yield from transfer.stages


def _by_epoch(records: Iterable[EpochsRecord]) -> frozenset[str]:
    """Return the stages of models that were trained again to attack them after every epoch."""
    return frozenset(stage.digest for record in records for stage in record.stages)


def _confirmed(results: Results) -> frozenset[str]:
    """Return the retrainings of `confirm`. Nothing reads them again."""
    try:
        found = Confirmation.model_validate_json(results.confirmation.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(run.retrain_digest for model in found.models for run in model.runs if run.retrain_digest)


_STATE = "state.pt"
_DAY = 24 * 3600.0

What = Literal["weights", "states of searches", "checkpoints of unfinished stages", "leftovers"]


@dataclass(frozen=True)
class Removal:
    """Files to remove."""

    what: What
    entry: Entry | None
    paths: tuple[str, ...]
    """Relative to the folder of the stage, or to the store if there is none."""
    size: int


@dataclass(frozen=True)
class Policy:
    """Weights are kept for the last experiments, and for what every experiment shows."""

    keep_last: int
    orphans: bool = False
    """Whether to remove results that no known experiment uses. Experiments elsewhere may use them."""


def removals(store: Store, entries: list[Entry], users: list[StoreUser], policy: Policy) -> list[Removal]:
    """Return everything that may be removed under the policy."""
    built_in_methods()  # registers their kinds of stages
    known = frozenset[str]().union(*(user.uses for user in users))
    last = frozenset[str]().union(*(user.uses for user in users[: policy.keep_last]))
    shown = frozenset[str]().union(*(user.shows for user in users))
    found: list[Removal] = []
    for entry in entries:
        may_go = entry.digest not in last and (policy.orphans or entry.digest in known)
        if may_go and entry.digest not in shown:
            found += _weights(store, entry)
        found += _checkpoint(store, entry, may_go)
        found += _leftovers(store, entry)
    return [*found, *_marks(store)]


def remove(store: Store, removal: Removal) -> None:
    """Remove it. Files of a result are first listed next to it, so that they do not look like damage."""
    entry = removal.entry
    folder = store.root if entry is None else store.folder(entry.name, entry.digest)
    if removal.what == "weights":
        for attempt in {path.split("/")[0] for path in removal.paths}:
            own = [path.removeprefix(f"{attempt}/") for path in removal.paths if path.startswith(f"{attempt}/")]
            # Includes the files of a `prune` that was interrupted.
            own = sorted({*own, *store.pruned(f"{folder}/{attempt}/{own[0]}", own[0])})
            store.write(f"{folder}/{attempt}/{PRUNED}", json.dumps(own).encode())
    if removal.what == "states of searches" and (pointer := store.checkpoint(folder)) is not None:
        part, files = pointer
        files.pop(_STATE, None)
        store.write(f"{folder}/{CHECKPOINT}", json.dumps({"part": part, "files": files}).encode())
    for path in removal.paths:
        store.remove(f"{folder}/{path}")


def _weights(store: Store, entry: Entry) -> Iterator[Removal]:
    kind = kind_of_stage(entry.name)
    pattern = kind.cleanable if kind is not None else None
    for result in readable(store, entry) if pattern else ():
        recorded = {file: path.rsplit("#", 1)[0] for file, path in result.files.items()}
        paths = [path for file, path in recorded.items() if fnmatch(file, str(pattern)) and path in entry.files]
        if paths:
            yield Removal("weights", entry, tuple(paths), sum(entry.files[path] for path in paths))


def _checkpoint(store: Store, entry: Entry, may_go: bool) -> Iterator[Removal]:
    if CHECKPOINT not in entry.files or not _old(store, entry, CHECKPOINT):
        return
    pointer = store.checkpoint(store.folder(entry.name, entry.digest))
    part = [] if pointer is None else [path for path in entry.files if path.startswith(f"{pointer[0]}/")]
    state = [path for path in part if path.endswith(f"/{_STATE}")]
    paths = (CHECKPOINT, *part)
    if not any(entry.results()):
        yield Removal("checkpoints of unfinished stages", entry, paths, sum(entry.files[path] for path in paths))
    elif not _extensible(entry):  # its worker was killed before it could remove it
        yield Removal("leftovers", entry, paths, sum(entry.files[path] for path in paths))
    elif may_go and state:
        yield Removal("states of searches", entry, tuple(state), sum(entry.files[path] for path in state))


def _extensible(entry: Entry) -> bool:
    """Return whether finished stages of this kind keep a checkpoint, so that they can be extended."""
    kind = kind_of_stage(entry.name)
    return kind is None or issubclass(kind, ExtensibleStage)


def _leftovers(store: Store, entry: Entry) -> Iterator[Removal]:
    """Yield attempts without a result, replaced checkpoints and incomplete files."""
    pointer = store.checkpoint(store.folder(entry.name, entry.digest))
    found = readable(store, entry)
    if len(found) < sum(1 for _ in entry.results()):
        return  # with a damaged result it is not known which attempts belong to results
    living = {path.split("/")[0] for result in found for path in result.files.values()}
    living |= set() if pointer is None else {pointer[0]}
    for path, size in entry.files.items():
        top = path.split("/")[0]
        part = top.startswith(("attempt-", "checkpoint-")) and top not in living
        if (part or path.rsplit("/", 1)[-1].startswith(WRITING)) and _old(store, entry, path):
            yield Removal("leftovers", entry, (path,), size)


def _marks(store: Store) -> Iterator[Removal]:
    """Yield the files of drivers and brokers that were killed."""
    for path, size in store.files().items():
        lasting = {IN_USE: STALE_SECONDS, BROKERS: _DAY, NODES: _DAY}.get(path.split("/")[0])
        if lasting is not None and time.time() - store.modified(f"{store.root}/{path}") > lasting:
            yield Removal("leftovers", None, (path,), size)


def _old(store: Store, entry: Entry, path: str) -> bool:
    return time.time() - store.modified(f"{store.folder(entry.name, entry.digest)}/{path}") > _DAY
