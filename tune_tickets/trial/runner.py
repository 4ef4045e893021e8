"""How a trial gets a stage done: the interface, and the plain implementation that computes in this process."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tune_tickets.config.resources import Resources
from tune_tickets.trial.execution import execute
from tune_tickets.trial.stage import Stage, StageResult

OnRecord = Callable[[dict[str, Any]], None]


class Runner(Protocol):
    """Gets stages done, wherever."""

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """The result of the stage. `on_record` sees its metric history, as it grows or replayed from the store."""
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
        result = execute(stage, self._resources, self.store_url, lambda done, total, records: None)
        if on_record is not None:
            for record in result.history:
                on_record(record)
        return result

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Compute the stages one after the other."""
        return [self.run(stage) for stage in stages]
