"""The broker: one named actor that gives each stage to exactly one Ray task, for any number of waiting trials."""

import asyncio
import json
import os
import time
import traceback
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tune_tickets.engine.execution import Resources, execute
from tune_tickets.engine.lease import LeaseHeld, holder_of
from tune_tickets.engine.node import check_node
from tune_tickets.engine.quarantine import Lost, finished, lost
from tune_tickets.engine.stage import Stage, StageResult, digest_of
from tune_tickets.engine.store import BROKERS, Store, Unreadable
from tune_tickets.errors import StoreError

POLL_SECONDS = 2.0
HEARTBEAT_SECONDS = 120.0
"""Long enough for a driver that waits for a tracking server, and for a trial whose process restarts."""
FORCE_SECONDS = 10.0
LEASE_SECONDS = 0.5


@dataclass(frozen=True)
class Reply:
    """The answer to a waiting trial."""

    state: Literal["done", "failed", "running", "queued"]
    launched: bool = False
    records: int = 0
    result: StageResult | None = None
    error: str | None = None
    lost: Lost | None = None
    """What the stage could not read and how to compute it again, if that is why it failed."""


@dataclass
class _Running:
    """A running stage and who waits for it (waiter -> time of the last heartbeat)."""

    stage: Stage
    ref: Any
    waiters: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    done: int = 0
    total: int = 0
    records: int = 0
    cancelled_at: float | None = None
    counted: float | None = None
    """Up to when its computing time is counted; None before its task starts."""
    reply: Reply | None = None


@dataclass
class _Elsewhere:
    """A stage that is computed outside this cluster, and who waits for it here."""

    stage: Stage
    where: str
    waiters: set[str] = field(default_factory=set)


def compute(broker: Any, stage: Stage, resources: Resources, store_url: str, owner: str) -> StageResult:  # noqa: ANN401
    """The Ray task of a stage."""
    broker.note.remote(stage.digest, 0, 0, 0)
    check_node()

    def note(done: int, total: int, records: int) -> None:
        broker.note.remote(stage.digest, done, total, records)

    try:
        return execute(stage, resources, store_url, note, owner)
    except KeyboardInterrupt as cancelled:
        if _cut_an_import(cancelled):
            os._exit(1)  # a half-imported torch would break every later stage in this process
        raise


def _cut_an_import(error: BaseException) -> bool:
    """Whether the error interrupted the import of a module."""
    return any(frame.f_code.co_name == "<module>" for frame, _ in traceback.walk_tb(error.__traceback__))


class Broker:
    """Async actor. Only running stages are in its memory; after a restart it reads the rest from the store."""

    def __init__(self, store_url: str, resources: Resources) -> None:
        self._store = Store(store_url)
        self._resources = resources
        self._running: dict[str, _Running] = {}
        self._elsewhere: dict[str, _Elsewhere] = {}
        context = ray.get_runtime_context()
        self._owner = f"{context.get_node_id()}/{context.get_actor_id()}"
        """The same after a restart, and different on every cluster."""
        self._kept = f"{self._store.folder(BROKERS, digest_of(self._owner)[:16])}/values.json"
        self._values = self._read_values()
        self._seconds = 0.0
        self._task = ray.remote(compute).options(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            max_retries=resources.retries,
            # Not in the placement group of the trial that asks: stages compete for the whole cluster.
            scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=None),  # type: ignore[arg-type]
        )
        self._reaper: asyncio.Task[None] | None = None

    async def join(self, stage: Stage, waiter: str, seen: int) -> Reply:
        """Wait for a stage and start it if needed. Returns when something has changed, or after a few seconds."""
        self._reaper = self._reaper or asyncio.create_task(self._reap())
        running, launched = self._running.get(stage.digest), False
        if running is None:
            found = finished(self._store, stage)
            if found is not None:
                self._elsewhere.pop(stage.digest, None)
                return Reply("done", result=found)
            if await self._is_elsewhere(stage, waiter):
                return Reply("queued")
            running, launched = self._launch(stage), True
        if running.cancelled_at is not None or running.stage.goal_digest != stage.goal_digest:
            await self._change(running)
            return Reply("queued")
        running.waiters[waiter] = time.monotonic()
        if running.records <= seen:
            await self._change(running)
        running.waiters[waiter] = time.monotonic()
        if running.reply is not None:
            settled = running.reply
            launched = launched and settled.state != "queued"
            return replace(settled, launched=launched, records=len(settled.result.history) if settled.result else 0)
        return Reply("running", launched, running.records)

    async def _is_elsewhere(self, stage: Stage, waiter: str) -> bool:
        """Whether another cluster or a worker of a dead driver computes the stage. If so, wait a moment."""
        holder = holder_of(self._store, stage, self._owner)
        if holder is None:
            self._elsewhere.pop(stage.digest, None)
            return False
        found = self._elsewhere.setdefault(stage.digest, _Elsewhere(stage, holder.describe()))
        found.waiters.add(waiter)
        await asyncio.sleep(LEASE_SECONDS)
        return True

    async def leave(self, digest: str, waiter: str) -> None:
        """Stop waiting. A stage that nobody waits for is cancelled."""
        running = self._running.get(digest)
        if digest in self._elsewhere:
            self._elsewhere[digest].waiters.discard(waiter)
        if running is not None and running.waiters.pop(waiter, None) is not None and not running.waiters:
            self._cancel(running)

    async def note(self, digest: str, done: int, total: int, records: int) -> None:
        """Receive the progress of a stage; the first call comes when its task starts."""
        running = self._running.get(digest)
        if running is not None:
            running.counted = running.counted or time.monotonic()
            running.done, running.total = done, total
            grown = records > running.records
            running.records = records  # a retried task starts with the records of its checkpoint
            if grown:
                running.changed.set()

    async def snapshot(self) -> list[dict[str, Any]]:
        """Return the running stages, for the live view."""
        return [
            {
                "stage": running.stage.name,
                "digest": digest,
                "done": running.done,
                "total": running.total,
                "waiters": list(running.waiters),
                "elsewhere": None,
            }
            for digest, running in self._running.items()
        ] + [
            {"stage": found.stage.name, "digest": digest, "waiters": list(found.waiters), "elsewhere": found.where}
            for digest, found in self._elsewhere.items()
            if found.waiters
        ]

    async def tell_values(self, values: tuple[float, ...]) -> None:
        """Record the objective values of a finished trial."""
        if values not in self._values:
            self._values.append(values)
            self._store.write(self._kept, json.dumps(self._values).encode())

    async def take_seconds(self) -> float:
        """Return the computing seconds of all stages since the last call, including failed and cancelled ones."""
        for running in self._running.values():
            self._count(running)
        taken, self._seconds = self._seconds, 0.0
        return taken

    async def best_values(self) -> list[tuple[float, ...]]:
        """Return the objective values of finished trials, which a running trial must beat."""
        return list(self._values)

    async def close(self) -> None:
        """Cancel all running stages. Call this before the driver exits."""
        self._store.remove(os.path.dirname(self._kept))
        running = list(self._running.values())
        for stage in running:
            self._cancel(stage)
        for stage in running:
            await self._change(stage)

    def _read_values(self) -> list[tuple[float, ...]]:
        """The values from before a restart. If they cannot be read, hopeless trials only run longer."""
        try:
            return [tuple(map(float, each)) for each in self._store.read_json(self._kept) or []]
        except (StoreError, TypeError, ValueError):
            return []

    def _count(self, running: _Running) -> None:
        if running.counted is not None:
            now = time.monotonic()
            self._seconds += now - running.counted
            running.counted = now

    def _launch(self, stage: Stage) -> _Running:
        handle = ray.get_runtime_context().current_actor
        ref = self._task.remote(handle, stage, self._resources, self._store.url, self._owner)
        running = _Running(stage, ref)
        self._running[stage.digest] = running
        asyncio.get_running_loop().create_task(self._watch(running))
        return running

    async def _watch(self, running: _Running) -> None:
        try:
            result = await running.ref
            running.reply = Reply("done", result=result)
        except ray.exceptions.TaskCancelledError:
            running.reply = Reply("queued")
        except Exception as error:
            running.reply = Reply("queued") if running.cancelled_at is not None else self._failed(error)
        self._count(running)
        self._running.pop(running.stage.digest, None)
        running.changed.set()

    def _failed(self, error: Exception) -> Reply:
        """The reply for a failed stage. One broker sees all damage of a search, so nothing is moved twice."""
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, LeaseHeld):
            return Reply("queued")
        try:
            found = lost(self._store, cause) if isinstance(cause, Unreadable) else None
        except Exception as trouble:  # trials must get an answer, also while the store is unreachable
            return Reply("failed", error=f"{explain(error)}, and it could not be set aside: {explain(trouble)}")
        return Reply("failed", error=explain(error), lost=found)

    async def _change(self, running: _Running) -> None:
        if running.reply is not None:
            return
        running.changed.clear()
        try:
            await asyncio.wait_for(running.changed.wait(), POLL_SECONDS)
        except TimeoutError:
            return

    def _cancel(self, running: _Running) -> None:
        if running.cancelled_at is None:
            running.cancelled_at = time.monotonic()
            ray.cancel(running.ref)

    async def _reap(self) -> None:
        """Cancel stages that only dead trials wait for, and force those that ignore a soft cancel."""
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            for running in list(self._running.values()):
                if running.cancelled_at is not None:
                    if now - running.cancelled_at > FORCE_SECONDS:
                        ray.cancel(running.ref, force=True)
                elif running.waiters and now - max(running.waiters.values()) > HEARTBEAT_SECONDS:
                    self._cancel(running)


def explain(error: BaseException) -> str:
    """Return type and message of the error that was raised in the worker."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {str(cause).strip()}"
