"""Writes to MLflow that may fail: kept in order, tried again, and named at the end, so that none is lost unnoticed."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tune_tickets.tracking.naming import without_passwords

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 60.0  # a server that does not answer must not hold up the search at every epoch
ATTEMPTS = 3  # tries before a write waits for the end, so that one broken write does not block the others


@dataclass
class _Write:
    what: str
    action: Callable[[], None]
    attempts: int = 0
    error: str = "not tried yet"


class Backlog:
    """Runs idempotent writes at once and in order; one that fails stays in line and is tried again later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._writes: list[_Write] = []
        self._quiet_until = float("-inf")

    def run(self, what: str, action: Callable[[], None]) -> None:
        """Do `action` now, after everything that still waits; never raises."""
        with self._lock:
            self._writes.append(_Write(what, action))
            if self._clock() < self._quiet_until:
                return
            for write in [write for write in self._writes if write.attempts < ATTEMPTS]:
                if not self._try(write):
                    self._quiet_until = self._clock() + PAUSE_SECONDS
                    return

    def settle(self) -> None:
        """Try everything that is left once more, whatever its fate so far."""
        with self._lock:
            for write in list(self._writes):
                self._try(write)

    @property
    def problems(self) -> tuple[str, ...]:
        """What has not reached MLflow, one sentence each."""
        with self._lock:
            return tuple(f"{write.what} is missing in MLflow: {write.error}" for write in self._writes)

    def _try(self, write: _Write) -> bool:
        try:
            write.action()
        except Exception as error:  # whatever a tracking store does, the search goes on
            write.error = without_passwords(f"{type(error).__name__}: {error}")
            if write.attempts == 0:
                logger.warning("MLflow did not take %s, it will be tried again: %s", write.what, write.error)
            write.attempts += 1
            return False
        self._writes.remove(write)
        return True
