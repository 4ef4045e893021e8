"""The trial's side of the broker."""

from dataclasses import replace
from typing import Any

import ray

from tune_tickets.errors import TicketsError
from tune_tickets.trial.broker import Broker, Reply
from tune_tickets.trial.runner import OnRecord
from tune_tickets.trial.stage import Stage, StageResult
from tune_tickets.trial.store import Store


class StageFailed(TicketsError):
    """A stage raised, or its worker died more often than `resources.retries` allows."""

    exit_code = 1


def start_broker(name: str, store_url: str, resources: Any) -> Any:  # noqa: ANN401 - an actor handle
    """The broker of an experiment, made once per cluster; it needs no CPU and comes back if its process dies."""
    actor = ray.remote(Broker).options(
        name=name, get_if_exists=True, num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=1000
    )
    return actor.remote(store_url, resources)


class BrokerRunner:
    """Gets stages done by the broker. `waiter` names the trial."""

    def __init__(self, broker: Any, store_url: str, waiter: str) -> None:  # noqa: ANN401 - an actor handle
        self.store_url = store_url
        self._broker = broker
        self._waiter = waiter
        self._store = Store(store_url)
        self.stopped = False

    def stop(self) -> None:
        """Give up waiting soon, from another thread."""
        self.stopped = True

    def run(self, stage: Stage, on_record: OnRecord | None = None) -> StageResult:
        """Wait for the stage, following its history."""
        seen, launched = 0, False
        try:
            while not self.stopped:
                reply: Reply = ray.get(self._broker.join.remote(stage, self._waiter, seen))
                launched = launched or reply.launched
                if reply.state == "failed":
                    raise StageFailed(f"stage '{stage.name}' failed: {reply.error}")
                if on_record is not None and reply.state in ("running", "done"):
                    history = reply.result.history if reply.result else self._store.history(stage.name, stage.digest)
                    for record in history[seen:]:
                        on_record(record)
                    seen = max(seen, len(history))
                else:
                    seen = max(seen, reply.records)
                if reply.result is not None:
                    return replace(reply.result, computed=launched)
            raise StageFailed(f"stage '{stage.name}' is no longer waited for")
        finally:
            self._broker.leave.remote(stage.digest, self._waiter)
