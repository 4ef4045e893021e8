"""How a trial gets a stage done: the interface, and the plain implementation that computes in this process."""

import time
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
    """Gets stages done, wherever."""

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """The result of the stage. `on_record` sees its metric history, as it grows or replayed from the store.

        Raises `Lost` if something that the stage reads has to be computed again first.
        """
        ...

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """The results of stages that do not depend on one another; all are asked for at once."""
        ...


class LocalRunner:
    """Computes stages one after the other in this process."""

    def __init__(self, store_url: str, resources: Resources) -> None:
        self.store_url = store_url
        self._resources = resources

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Compute the stage, then replay its history."""
        try:
            result = self._execute(stage)
        except Unreadable as damage:
            raise lost(Store(self.store_url), damage) or damage from damage
        if on_record is not None:
            for record in result.history:
                on_record(record)
        return result

    def _execute(self, stage: Stage) -> StageResult:
        while True:
            try:
                return execute(stage, self._resources, self.store_url, lambda done, total, records: None)
            except LeaseHeld:  # another process computes it: its result will do
                time.sleep(_WAIT_SECONDS)

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Compute the stages one after the other."""
        return [self.run(stage) for stage in stages]


class NotStored(TicketsError):
    """The store has no result of a stage, and none is to be computed."""


class StoreReader:
    """Only looks: gives what the store has, and raises `NotStored` where that ends."""

    def __init__(self, store_url: str) -> None:
        self._store = Store(store_url)

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """The stored result; one that is damaged would have to be computed again."""
        try:
            found = self._store.result(stage)
        except Unreadable:
            found = None
        if found is None:
            raise NotStored(f"{self._store.url} holds no result of stage '{stage.name}'")
        return found

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """The stored results, if all are there."""
        return [self.run(stage) for stage in stages]


class DryRunner:
    """Computes nothing: gives what the store has, or else a result to plan with. Notes every stage requested."""

    def __init__(self, store: Store | None) -> None:
        """`store` may be None if results cannot be found by their digests, since not all data could be read."""
        self._store = store
        self.asked: list[Stage] = []
        self.cached: list[Stage] = []

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """The stored result, or a foreseen one."""
        self.asked.append(stage)
        found = self._stored(stage)
        if found is not None:
            self.cached.append(stage)
            return found
        key = StageKey(stage.name, stage.digest, stage.digest, stage.goal_digest)
        files = {file: f"foreseen/{file}#" for file in stage.foreseen_files()}
        return StageResult(key, stage.foreseen(), files, [], 0.0)

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """The results of all stages."""
        return [self.run(stage) for stage in stages]

    def _stored(self, stage: Stage) -> StageResult | None:
        try:
            return None if self._store is None else self._store.result(stage)
        except Unreadable:
            return None


def later(on_record: OnRecord, steps: int) -> OnRecord:
    """The records of a round behind those of the rounds before it."""
    return lambda record: on_record({**record, "step": record["step"] + steps})


def unheard(record: dict[str, Any]) -> None:
    """The epochs of a fine-tuning before the search are not those that trials are compared by."""
