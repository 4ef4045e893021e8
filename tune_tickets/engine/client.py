"""The runner of trials on Ray: it asks the broker."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ray

from tune_tickets.engine.broker import Broker, Reply
from tune_tickets.engine.runner import OnRecord
from tune_tickets.engine.stage import Stage, StageResult
from tune_tickets.engine.store import Store
from tune_tickets.errors import TicketsError

ON_HEAD = {"node:__internal_head__": 0.001}
"""Keeps coordinators on the head node, which no autoscaler removes."""


class StageFailed(TicketsError):
    """A stage raised, or its worker died more often than `resources.retries` allows."""

    exit_code = 1


def start_broker(name: str, store_url: str, resources: Any) -> Any:  # noqa: ANN401 - an actor handle
    """Start the broker of an experiment, or return the running one. It needs no CPU and restarts when it dies."""
    actor = ray.remote(Broker).options(
        name=name,
        get_if_exists=True,
        num_cpus=0,
        resources=ON_HEAD,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=1000,
    )
    return actor.remote(store_url, resources)


class BrokerRunner:
    """Gets results of stages from the broker. `waiter` names the trial."""

    def __init__(
        self,
        broker: Any,  # noqa: ANN401 - an actor handle
        store_url: str,
        waiter: str,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """`ended` is called regularly: if it returns True, waiting stops."""
        self.store_url = store_url
        self._broker = broker
        self._waiter = waiter
        self._store = Store(store_url)
        self._stopped, self._ended = False, ended

    def stop(self) -> None:
        """Stop waiting soon. Can be called from another thread."""
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """Whether waiting has stopped."""
        return self._stopped or self._ended()

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Wait for a stage and follow its history."""
        return self._wait([stage], on_record)[0]

    def run_all(self, stages: Sequence[Stage]) -> list[StageResult]:
        """Request all stages at once, so that an autoscaler sees the whole demand, and wait for them."""
        return self._wait(stages, None)

    def _wait(self, stages: Sequence[Stage], on_record: OnRecord | None) -> list[StageResult]:
        done: dict[str, StageResult] = {}
        launched: set[str] = set()
        seen = Counter[str]()
        try:
            while left := {stage.digest: stage for stage in stages if stage.digest not in done}:
                if self.stopped:
                    names = ", ".join(sorted({f"'{stage.name}'" for stage in left.values()}))
                    raise StageFailed(f"waiting for stage {names} was stopped")
                asked = [self._broker.join.remote(stage, self._waiter, seen[digest]) for digest, stage in left.items()]
                for (digest, stage), reply in zip(left.items(), ray.get(asked), strict=True):
                    if reply.launched:
                        launched.add(digest)
                    if reply.state == "failed":
                        raise reply.lost or StageFailed(f"stage '{stage.name}' failed: {reply.error}")
                    for record in self._news(stage, reply, seen[digest]):
                        seen[digest] += 1
                        if on_record is not None:
                            on_record(record)
                    if reply.result is not None:
                        done[digest] = replace(reply.result, computed=digest in launched)
            return [done[stage.digest] for stage in stages]
        finally:
            for stage in stages:
                self._broker.leave.remote(stage.digest, self._waiter)

    def _news(self, stage: Stage, reply: Reply, seen: int) -> list[dict[str, Any]]:
        """New records of the history. Before the stage has reported, the file belongs to another goal or attempt."""
        if reply.result is not None:
            return reply.result.history[seen:]
        return self._store.history(stage.name, stage.digest)[seen : reply.records] if reply.records > seen else []

    def tell_values(self, values: tuple[float, ...]) -> None:
        """Tell all trials the objective values of a finished one."""
        ray.get(self._broker.tell_values.remote(values))

    def best_values(self) -> list[tuple[float, ...]]:
        """Return the objective values of finished trials."""
        found: list[tuple[float, ...]] = ray.get(self._broker.best_values.remote())
        return found
