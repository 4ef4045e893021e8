"""Runners return results of stages: computed here, only read, or only planned. `client` has the one for Ray."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tune_tickets.engine.execution import Resources, execute
from tune_tickets.engine.lease import LeaseHeld
from tune_tickets.engine.quarantine import lost
from tune_tickets.engine.stage import Stage, StageKey, StageResult
from tune_tickets.engine.store import Store, Unreadable
from tune_tickets.errors import TicketsError

_WAIT_SECONDS = 0.5
OnRecord = Callable[[dict[str, Any]], None]


class Runner(Protocol):
    """Returns results of stages."""

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Return the result of a stage.

        Args:
            stage: The stage.
            on_record: Receives the metric history, live or replayed from the store.

        Raises:
            Lost: an upstream result must be computed again first.
        """
        ...

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Return the results of independent stages, which are requested at once."""
        ...


class _OneByOne(ABC):
    """A runner that handles stages one after another."""

    @abstractmethod
    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Return the result of a stage."""

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Return the results of several stages."""
        return [self.run(stage) for stage in stages]


class LocalRunner(_OneByOne):
    """Computes stages in this process, one after another."""

    def __init__(self, store_url: str, resources: Resources) -> None:
        self.store_url = store_url
        self._resources = resources

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Compute the stage, then replay its history."""
        result = None
        while result is None:
            try:
                result = execute(stage, self._resources, self.store_url, lambda done, total, records: None)
            except LeaseHeld:  # another process computes it: wait for its result
                time.sleep(_WAIT_SECONDS)
            except Unreadable as damage:
                raise lost(Store(self.store_url), damage) or damage from damage
        if on_record is not None:
            for record in result.history:
                on_record(record)
        return result


class NotStored(TicketsError):
    """The store has no result of a stage, and this runner does not compute."""


class StoreReader(_OneByOne):
    """Reads results from the store. Raises `NotStored` if one is missing."""

    def __init__(self, store_url: str) -> None:
        self._store = Store(store_url)

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Return the stored result; a damaged one counts as missing."""
        try:
            found = self._store.result(stage)
        except Unreadable:
            found = None
        if found is None:
            raise NotStored(f"{self._store.url} holds no result of stage '{stage.name}'")
        return found


class DryRunner(_OneByOne):
    """Computes nothing: returns stored results, or made-up ones to plan with. Records every requested stage."""

    def __init__(self, store: Store | None) -> None:
        """`store` is None if digests are not known because some data could not be read."""
        self._store = store
        self.asked: list[Stage] = []
        self.cached: list[Stage] = []

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Return the stored result, or a made-up one."""
        self.asked.append(stage)
        found = self._stored(stage)
        if found is not None:
            self.cached.append(stage)
            return found
        key = StageKey(stage.name, stage.digest, stage.digest, stage.goal_digest)
        files = {file: f"foreseen/{file}#" for file in stage.foreseen_files()}
        return StageResult(key, stage.foreseen(), files, [], 0.0)

    def _stored(self, stage: Stage) -> StageResult | None:
        try:
            return None if self._store is None else self._store.result(stage)
        except Unreadable:
            return None


def later(on_record: OnRecord, steps: int) -> OnRecord:
    """Shift the steps of records, so that those of one round follow those of the rounds before."""
    return lambda record: on_record({**record, "step": record["step"] + steps})


def unheard(record: dict[str, Any]) -> None:
    """Ignore a record. For stages by which trials are not compared."""
