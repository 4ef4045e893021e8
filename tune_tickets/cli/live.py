"""Progress on the terminal: `make_view` for a running search, `Meter` for one long piece of work.

Both redraw themselves on a terminal and print plain lines elsewhere.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from tune_tickets.search.progress import (
    Board,
    EpochReport,
    Event,
    Line,
    Note,
    StageChanged,
    TrialFinished,
    TrialStarted,
    clock_text,
    figures_text,
    values_text,
)

HEARTBEAT_SECONDS = 15.0
BAR = 10
STYLES = {"complete": "green", "failed": "red", "interrupted": "yellow"}


def make_view(total_trials: int, console: Console) -> "PlainView | TerminalView":
    """Return the table for a terminal, or plain lines if output is piped or the terminal cannot redraw."""
    redraws = console.is_terminal and not console.is_dumb_terminal
    return TerminalView(total_trials, console) if redraws else PlainView(total_trials, console)


class PlainView:
    """One line per event, and a line with the current state if nothing was printed for a while."""

    def __init__(self, total: int, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._board, self._console, self._clock = Board(total, clock), console, clock
        self._lock, self._over, self._printed = threading.RLock(), threading.Event(), clock()
        self._thread = threading.Thread(target=self._keep_beating, name="live-view", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _keep_beating(self) -> None:
        while not self._over.wait(1.0):
            self.beat()

    def beat(self) -> None:
        """Print what is running, if the last line is older than `HEARTBEAT_SECONDS`."""
        with self._lock:
            if self._board.running and self._clock() - self._printed >= HEARTBEAT_SECONDS:
                states = ", ".join(f"{line.name} {line.stage}{_percent(line)}" for line in self._board.running)
                self._print(f"{states}; {self._board.counts()}")

    def handle(self, event: Event) -> None:
        """Print the event. Progress is only shown by the next `beat`."""
        with self._lock:
            if isinstance(event, Note):
                self._board.recall(event)
                self._print(event.text)
                return
            ended = self._board.ended_stage(event)
            line = self._board.apply(event)
            if ended:
                self._print(f"{line.name}: {ended}")
            for text in self._texts(event, line):
                self._print(text)
            self.beat()

    def _texts(self, event: Event, line: Line) -> Iterator[str]:
        if isinstance(event, TrialStarted):
            params = ", ".join(f"{key}={_short(value)}" for key, value in event.params.items())
            yield f"{line.name} started: {params}" if params else f"{line.name} started"
        elif isinstance(event, StageChanged):
            yield f"{line.name}: {event.stage} {'was in the store' if event.cached else 'begins'}"
        elif isinstance(event, EpochReport):
            yield f"{line.name}: {figures_text(event.metrics)}"
        elif isinstance(event, TrialFinished):
            objective = f", objective {values_text(event.values)}" if event.values else ""
            figures = f" ({figures_text(event.metrics)})" if event.metrics else ""
            reason = f": {event.headline}" if event.note else ""
            yield f"{line.name} {event.status}{objective}{figures}{reason}"
            yield f"{self._board.counts()}; {self._board.outlook()}"

    def _print(self, text: str) -> None:
        self._printed = self._clock()
        stamp = clock_text(self._printed - self._board.began)
        self._console.print(f"[{stamp}] {text}", markup=False, highlight=False, soft_wrap=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class TerminalView:
    """Two lines with the overall state, and a table of running and recently finished trials."""

    def __init__(self, total: int, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._board, self._console, self._clock = Board(total, clock), console, clock
        self._lock = threading.RLock()
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def handle(self, event: Event) -> None:
        """Take one event, which the next redraw shows. A note stays above the table."""
        if isinstance(event, Note):
            self._console.print(event.text, highlight=False, markup=False, soft_wrap=True)
        with self._lock:
            if isinstance(event, Note):
                self._board.recall(event)
            else:
                self._board.apply(event)

    def render(self) -> RenderableType:
        """Return the current state, no higher than the terminal."""
        with self._lock:
            parts: list[RenderableType] = [Text(self._board.counts(), "bold"), Text(self._board.outlook())]
            if failure := self._board.last_failure():
                parts.append(Text(failure, "red", no_wrap=True, overflow="ellipsis"))
            room = max(self._console.height - len(parts) - 3, 1)
            lines = self._board.running + self._board.finished
            parts.append(self._table(lines[:room]))
            if len(lines) > room:
                parts.append(Text(f"and {len(lines) - room} more", "dim"))
            return Group(*parts)

    def _table(self, lines: list[Line]) -> Table:
        widths = {"trial": max([5, *(len(line.name) for line in lines)]), "stage": 11, "progress": BAR + 5, "time": 7}
        rest = max(self._console.width - sum(widths.values()) - 2 * len(widths), 10)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for header, width in (widths | {"figures": rest}).items():
            table.add_column(header, no_wrap=True, width=width, overflow="ellipsis")
        for line in lines:
            table.add_row(*self._cells(line, rest), style=_style(line))
        return table

    def _cells(self, line: Line, width: int) -> tuple[RenderableType, ...]:
        seconds = clock_text((line.ended if line.finish else self._clock()) - line.started)
        figures = figures_text(line.metrics, width)
        if line.finish is None:
            return Text(line.name), Text(line.stage), self._bar(line), seconds, Text(figures)
        values = line.finish.values or ()
        objective = f"{'obj. ' if len(values) == 1 else ''}{values_text(values)}"
        return Text(line.name), Text(line.finish.status), objective, seconds, Text(line.finish.headline or figures)

    def _bar(self, line: Line) -> Text:
        if line.share is None:
            return Text("in the store" if line.cached else "")
        full, empty = ("#", "-") if self._console.options.ascii_only else ("━", "─")
        filled = round(BAR * line.share)
        return Text.assemble((full * filled, "cyan"), (empty * (BAR - filled), "dim"), f" {100 * line.share:3.0f}%")


def _style(line: Line) -> str:
    if line.finish is None:
        return ""
    return "dim" if not line.finish.feasible else STYLES.get(line.finish.status, "dim")


def _percent(line: Line) -> str:
    return "" if line.share is None else f" {100 * line.share:.0f}%"


class Meter:
    """Show how far one piece of work is, on stderr.

    Call it with (done, total) inside its `with` block. `done` stays readable after an interruption.
    """

    def __init__(self, title: str, total: int, unit: str = "rows") -> None:
        self.done = 0
        self._unit = unit
        self._title, self._printed = title, time.monotonic()
        self._console = Console(stderr=True)
        title_column = TextColumn("{task.description}", markup=False)
        columns = (title_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = ProgressBar(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        self.done = done
        self._bar.update(self._task, completed=done)
        if not self._console.is_terminal and time.monotonic() - self._printed >= HEARTBEAT_SECONDS:
            self._printed = time.monotonic()
            line = f"{self._title}: {done} of {total} {self._unit}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
