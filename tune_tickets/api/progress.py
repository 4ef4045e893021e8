"""How far a search or an attack has come, as one line that a notebook can bear."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from tune_tickets.reporting.progress import Board, Event, Note, TrialFinished

REDRAWN_SECONDS = 0.5


class _Line:
    """One line that is written over where that works, on terminals and in notebooks; elsewhere a line now and then."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._lock, self._written, self._width = threading.Lock(), float("-inf"), 0
        self._redraws = self._stream.isatty() or "ipykernel" in sys.modules

    def show(self, text: str, lasting: bool) -> None:
        """`lasting` lines are always written; of the others, a few a second where they can be written over."""
        with self._lock:
            now = self._clock()
            if not lasting and (not self._redraws or now - self._written < REDRAWN_SECONDS):
                return
            self._written = now
            if self._redraws:
                self._stream.write("\r" + text.ljust(self._width))
                self._width = len(text)
            else:
                self._stream.write(text + "\n")
            self._stream.flush()

    def end(self) -> None:
        """The next thing printed begins on a line of its own."""
        if self._redraws and self._width:
            self._stream.write("\n")


class SearchLine(_Line):
    """Counts of trials, the best so far and the time left; a note is followed by a line break."""

    def __init__(self, trials: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._board, self._telling = Board(trials, clock), threading.Lock()

    def __call__(self, event: Event) -> None:
        """Take one event of a running search; safe from any thread."""
        with self._telling:
            if isinstance(event, Note):
                self._board.recall(event)
                self.show(event.text, lasting=True)
                self.end()
                return
            self._board.apply(event)
            self.show(f"{self._board.counts()}; {self._board.outlook()}", isinstance(event, TrialFinished))


class AttackLine(_Line):
    """Rows done of one attack."""

    def __init__(
        self, title: str, rows: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, clock)
        self._title, self._rows = title, rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def __call__(self, done: int, total: int) -> None:
        """Take how far the attack is."""
        self.show(f"{self._title}: {done} of {total} rows", lasting=done == total)
