"""How far a long piece of work has come: a bar on the terminal, elsewhere a line now and then. All on stderr."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

HEARTBEAT_SECONDS = 15.0


class Meter:
    """Called with (rows done, rows in all) while its `with` block lasts; `done` outlives an interruption."""

    def __init__(self, title: str, total: int, unit: str = "rows") -> None:
        self.done = 0
        self._unit = unit
        self._title, self._spoken = title, time.monotonic()
        self._console = Console(stderr=True)
        title_column = TextColumn("{task.description}", markup=False)
        columns = (title_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        self.done = done
        self._bar.update(self._task, completed=done)
        if not self._console.is_terminal and time.monotonic() - self._spoken >= HEARTBEAT_SECONDS:
            self._spoken = time.monotonic()
            line = f"{self._title}: {done} of {total} {self._unit}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
