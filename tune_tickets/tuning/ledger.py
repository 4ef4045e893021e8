"""What a search has spent over all its sessions, kept beside its results, and whether that is all it may."""

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tune_tickets.config import Settings
from tune_tickets.records import StageRecord

_HOUR = 3600.0
_LEAST_SECONDS = 1.0
"""Between two looks at the clock: Tune asks many times a second."""
KINDS = ("gpu_hours", "cpu_hours", "wall_clock_hours", "money")


class Ledger:
    """Adds up stages as trials report them and the time and nodes between two looks; every look is on disk.

    A stage is charged once it is reported, so what is under way when the limit is reached comes on top of it.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        nodes: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = settings.search.budget.limits()
        self._price = settings.search.budget.price_per_node_hour
        self._resources = settings.resources
        self._path, self._nodes, self._clock = path, nodes, clock
        self._charged: set[str] = set()
        self._looked = clock()
        self.spent = dict.fromkeys(KINDS, 0.0) | _read(path)

    def charge(self, stages: Iterable[StageRecord]) -> None:
        """Add the stages that were computed here; one that is reported again is not charged again."""
        for stage in stages:
            if not stage.cached and stage.digest not in self._charged:
                self._charged.add(stage.digest)
                self.spent["gpu_hours"] += stage.seconds * self._resources.gpus / _HOUR
                self.spent["cpu_hours"] += stage.seconds * self._resources.cpus / _HOUR

    def exhausted(self) -> str | None:
        """Which limit is reached, in words; None while there is something left."""
        self._look()
        for name, limit in self._limits.items():
            if self.spent[name] >= limit:
                return f"the budget of {limit:g} {name.replace('_', ' ')} is spent ({self.spent[name]:.4g})"
        return None

    def close(self) -> None:
        """Keep the time since the last look."""
        self._look(least=0.0)

    def _look(self, least: float = _LEAST_SECONDS) -> None:
        now = self._clock()
        if now - self._looked < least:
            return
        hours, self._looked = (now - self._looked) / _HOUR, now
        self.spent["wall_clock_hours"] += hours
        if self._price is not None:
            self.spent["money"] += hours * self._nodes() * self._price
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self.spent), encoding="utf-8")
        os.replace(partial, self._path)


def _read(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}
    return {name: float(value) for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
