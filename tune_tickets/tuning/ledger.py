"""What a search has spent over all its sessions, kept beside its results, and whether that is all it may."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tune_tickets.config import Settings
from tune_tickets.errors import TicketsError
from tune_tickets.tuning.results import write_whole

_HOUR = 3600.0
_LEAST_SECONDS = 1.0
"""Between two looks at the clock: Tune asks many times a second."""
KINDS = ("gpu_hours", "cpu_hours", "wall_clock_hours", "money")


class Ledger:
    """Adds up the time that stages compute, and the time and nodes between two looks; every look is on disk."""

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
        self._looked = clock()
        self._looking = threading.Lock()  # controls look from threads of their own
        self.spent = dict.fromkeys(KINDS, 0.0) | _read(path)

    def charge(self, seconds: float) -> None:
        """Add what stages held in this time, finished or not: a stage cut off has cost as much as any other."""
        self.spent["gpu_hours"] += seconds * self._resources.gpus / _HOUR
        self.spent["cpu_hours"] += seconds * self._resources.cpus / _HOUR

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
        with self._looking:
            now = self._clock()
            if now - self._looked < least:
                return
            hours, self._looked = (now - self._looked) / _HOUR, now
            self.spent["wall_clock_hours"] += hours
            if self._price is not None:
                self.spent["money"] += hours * self._nodes() * self._price
            write_whole(self._path, json.dumps(self.spent))


def _read(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}
    try:
        return {name: float(value) for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (ValueError, TypeError, AttributeError):
        raise TicketsError(
            f"{path} is damaged: what the search has spent cannot be told. Correct it by hand, or remove it to count "
            "from 0 again"
        ) from None
