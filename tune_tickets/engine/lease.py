"""Leases: a file that says who computes a stage, so that clusters with one store do not do the same work twice.

The holder renews its lease while it computes. Others may take it over when it has expired, or at once if its holder is
known to be dead. On a local or shared file system a lock protects every read and write, so only one process can
acquire it. Object stores have no locks: there the lease is written and read back. If two processes ever compute the
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
"""After this time a later write of another process to an object store is visible."""
_LOCK, _LOCK_SECONDS = "leases.lock", 30.0
"""One file per store, locked while a lease is read and written."""
_held: set[str] = set()
"""The leases of this process."""


@dataclass(frozen=True)
class Holder:
    """Who computes a stage."""

    token: str
    owner: str
    """The broker, which never gives a stage to two tasks at once; empty outside a cluster."""
    host: str
    pid: int
    born: str
    since: float
    renewed: float
    seconds: float

    def describe(self) -> str:
        """Name the process in a message."""
        return f"process {self.pid} on {self.host.split()[0]}"

    def is_alive(self, owner: str) -> bool:
        """Whether it still computes, as far as `owner` can tell."""
        if time.time() - self.renewed > self.seconds:
            return False
        same_owner = bool(owner) and self.owner == owner
        if self.host != _host():
            return not same_owner  # its broker starts it again only if it has died
        if self.pid == os.getpid():
            return not same_owner and self.token in _held
        return _born(self.pid) == self.born


class LeaseHeld(TicketsError):
    """Another process computes the stage."""


def holder_of(store: Store, stage: Stage, owner: str) -> Holder | None:
    """Return who else computes a stage now, or None."""
    holder = _parse(store.read_path(_path(store, stage)))
    return holder if holder is not None and holder.is_alive(owner) else None


@contextmanager
def leased(store: Store, stage: Stage, seconds: float, owner: str = "") -> Iterator[None]:
    """Hold the lease of a stage during the block.

    Raises:
        LeaseHeld: another process holds it.
    """
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
                raise LeaseHeld(f"several processes want to compute stage {stage.name} {stage.digest[:12]} at once")
    except BaseException:
        _held.discard(token)
        raise
    return mine


def _release(store: Store, path: str, mine: Holder, beat: threading.Thread, over: threading.Event) -> None:
    over.set()
    if beat.ident is not None:
        beat.join()
    if mine.token in _held:
        # A lease that is not removed expires. No error here may fail the stage, and buckets have their own types.
        with suppress(Exception), _alone(store):
            if _is_mine(store, path, mine):
                store.remove(path)
        _held.discard(mine.token)


def _keep_renewing(store: Store, path: str, mine: Holder, over: threading.Event) -> None:
    while not over.wait(mine.seconds / 3):
        with suppress(Exception), _alone(store):  # a store that is unreachable for a moment is asked again
            if not _is_mine(store, path, mine):
                return  # taken over while this process was suspended: the other one continues
            store.write(path, _dump(replace(mine, renewed=time.time())))


def _is_mine(store: Store, path: str, mine: Holder) -> bool:
    holder = _parse(store.read_path(path))
    return holder is not None and holder.token == mine.token


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Lock the leases of a store. The system releases the lock of a dead process. Object stores have no lock."""
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
    """This machine. Containers with one name and separate process namespaces count as different machines."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} -"


def _born(pid: int) -> str | None:
    """When a process of this machine was started, which tells apart processes with the same id; None if it is gone."""
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
