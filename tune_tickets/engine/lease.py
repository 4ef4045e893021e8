"""Leases: a file beside a stage that says who computes it, so that clusters on one store do not do the same work twice.

The holder renews it while it computes. It is taken over when it has not been renewed for its time, and at once when its
holder is known to be dead. On a local or shared file system every look and every change is made by one at a time, so no
two can acquire it. Object stores have no such promise: there it is written and read back. Should two ever compute the
same stage, both get the same result.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from tune_tickets.engine.stage import Stage
from tune_tickets.engine.store import Store
from tune_tickets.errors import TicketsError

_SETTLE_SECONDS = 0.5
"""How long after writing to an object store another's later write would show."""
_LOCK, _LOCK_SECONDS = "leases.lock", 30.0
"""One file for all leases of a store, locked for the moment in which one is read and written."""
_held: set[str] = set()
"""The leases of this process."""


@dataclass(frozen=True)
class Holder:
    """Who computes a stage."""

    token: str
    owner: str
    """Names a broker, which never gives a stage to two tasks at once; empty outside of a cluster."""
    host: str
    pid: int
    born: str
    since: float
    renewed: float
    seconds: float

    def describe(self) -> str:
        """For people."""
        return f"process {self.pid} on {self.host.split()[0]}"

    def is_alive(self, owner: str) -> bool:
        """Whether it still computes, as far as `owner` can tell from here."""
        if time.time() - self.renewed > self.seconds:
            return False
        same_owner = bool(owner) and self.owner == owner
        if self.host != _host():
            return not same_owner  # a task that its own broker starts again has died wherever it was
        if self.pid == os.getpid():
            return not same_owner and self.token in _held
        return _born(self.pid) == self.born


class LeaseHeld(TicketsError):
    """Somebody else computes the stage."""


def holder_of(store: Store, stage: Stage, owner: str) -> Holder | None:
    """Who else computes a stage right now, if anybody does."""
    holder = _parse(store.read_path(_path(store, stage)))
    return holder if holder is not None and holder.is_alive(owner) else None


@contextmanager
def leased(store: Store, stage: Stage, seconds: float, owner: str = "") -> Iterator[None]:
    """Hold the lease of a stage for as long as the block lasts; `LeaseHeld` if somebody else does."""
    path, mine = _path(store, stage), _acquire(store, stage, seconds, owner)
    over = threading.Event()
    beat = threading.Thread(target=_keep_renewing, args=(store, path, mine, over), name="lease", daemon=True)
    try:
        try:
            beat.start()
            yield
        finally:
            _release(store, path, mine, beat, over)
    finally:
        _release(store, path, mine, beat, over)  # a cancelled task may have been interrupted in the first one


def _acquire(store: Store, stage: Stage, seconds: float, owner: str) -> Holder:
    path, token = _path(store, stage), uuid.uuid4().hex
    mine = Holder(token, owner, _host(), os.getpid(), _born(os.getpid()) or "", time.time(), time.time(), seconds)
    _held.add(token)
    try:
        with _alone(store):
            other = _parse(store.read_path(path))
            if other is not None and other.is_alive(owner):
                raise LeaseHeld(f"stage {stage.name} {stage.digest[:12]} is computed by {other.describe()}")
            store.write(path, _dump(mine))
        if not store.local:
            time.sleep(_SETTLE_SECONDS)
            if not _is_mine(store, path, mine):
                raise LeaseHeld(f"several want to compute stage {stage.name} {stage.digest[:12]} at once")
    except BaseException:
        _held.discard(token)
        raise
    return mine


def _release(store: Store, path: str, mine: Holder, beat: threading.Thread, over: threading.Event) -> None:
    over.set()
    if beat.ident is not None:
        beat.join()
    if mine.token in _held:
        # One that is left behind is a dead one. Buckets have errors of their own kind: none is one of the stage.
        with suppress(Exception), _alone(store):
            if _is_mine(store, path, mine):
                store.remove(path)
        _held.discard(mine.token)


def _keep_renewing(store: Store, path: str, mine: Holder, over: threading.Event) -> None:
    while not over.wait(mine.seconds / 3):
        with suppress(Exception), _alone(store):  # a store that is away for a moment is asked again
            if not _is_mine(store, path, mine):
                return  # taken over while this process was held up: the other one goes on with it
            store.write(path, _dump(replace(mine, renewed=time.time())))


def _is_mine(store: Store, path: str, mine: Holder) -> bool:
    holder = _parse(store.read_path(path))
    return holder is not None and holder.token == mine.token


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Nobody else looks at the leases of the store or changes them; the system unlocks what a dead process has locked.

    Where there are no locks, nothing is promised.
    """
    if not store.local:
        yield
        return
    os.makedirs(store.root, exist_ok=True)
    lock = FileLock(f"{store.root}/{_LOCK}", timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise LeaseHeld(f"{store.root}/{_LOCK} has been locked by another process for {_LOCK_SECONDS:.0f} s") from None
    try:
        yield
    finally:
        lock.release()


def _path(store: Store, stage: Stage) -> str:
    return f"{store.folder(stage.name, stage.digest)}/lease.json"


def _parse(content: bytes | None) -> Holder | None:
    try:
        return None if content is None else Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None


def _dump(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode()


@cache
def _host() -> str:
    """This machine; containers of one name that do not see each other's processes are different ones."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} -"


def _born(pid: int) -> str | None:
    """When a process of this machine was started, which no later one of its number can share; None if it is gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else f"{boot} {fields[18]}"
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except ProcessLookupError:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "running"
