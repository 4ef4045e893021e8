"""Watching the stages under way: a thread that asks the broker, tells the live view and has their time charged."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray

from tune_tickets.reporting.progress import Event, Note, Progress, StageChanged

_SECONDS = 1.0
"""Between two looks: where every core computes, each look takes time from a stage."""


class StageWatch:
    """Runs from `with` to its end. `label` turns the name of a waiter into what people call it."""

    def __init__(
        self,
        broker: Any,  # noqa: ANN401 - an actor handle
        label: Callable[[str], int | str | None],
        emit: Callable[[Event], None],
        charge: Callable[[float], None] | None = None,
    ) -> None:
        """`charge` is told how many seconds stages have computed since it was told last."""
        self._broker = broker
        self._label = label
        self._emit = emit
        self._charge = charge
        self._stages: dict[int | str, str] = {}
        self._elsewhere: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stage-watch", daemon=True)

    def __enter__(self) -> "StageWatch":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join(timeout=5.0)
        self._look()

    def _watch(self) -> None:
        while not self._end.wait(_SECONDS):
            self._look()

    def _look(self) -> None:
        with suppress(Exception):  # the view is a convenience: a broker restarting must not end the search
            self._tell(ray.get(self._broker.snapshot.remote(), timeout=5.0))
            if self._charge is not None:
                self._charge(ray.get(self._broker.take_seconds.remote(), timeout=5.0))

    def _tell(self, running: list[dict[str, Any]]) -> None:
        for stage in running:
            if stage["elsewhere"]:
                self._tell_elsewhere(stage)
                continue
            for waiter in stage["waiters"]:
                label = self._label(waiter)
                if label is None:
                    continue
                if self._stages.get(label) != stage["stage"]:
                    self._stages[label] = stage["stage"]
                    self._emit(StageChanged(label, stage["stage"], cached=False))
                if stage["total"]:
                    self._emit(Progress(label, stage["stage"], stage["done"], stage["total"]))

    def _tell_elsewhere(self, stage: dict[str, Any]) -> None:
        if stage["digest"] not in self._elsewhere:
            self._elsewhere.add(stage["digest"])
            self._emit(Note(f"Stage {stage['stage']} is computed by {stage['elsewhere']}: waiting for its result"))
