"""`tune`: a search from Python, and what it leaves."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console

from tune_tickets.config import Experiment
from tune_tickets.errors import TicketsError
from tune_tickets.reports.table import print_table
from tune_tickets.results.folder import place_results
from tune_tickets.results.records import Summary
from tune_tickets.results.summary import read_summary
from tune_tickets.search.progress import Board, Event, Note, TrialFinished
from tune_tickets.search.space import trials_wanted, warm_starts

if TYPE_CHECKING:
    from tune_tickets.models.loading import LoadedTicket


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


@dataclass(frozen=True, repr=False)
class Result:
    """A search that ended: its results folder and its summary.

    >>> result = Result.load("results/reviews")
    >>> print(result.table())
    >>> result.ticket().predict(["a gripping, beautifully acted film"])
    """

    folder: Path
    summary: Summary
    problems: tuple[str, ...] = ()
    """What MLflow could not keep; nothing else is lost by it."""

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """The results folder of a search that has ended."""
        place = Path(folder).expanduser().resolve()
        return cls(place, read_summary(place))

    @property
    def best(self) -> Path | None:
        """The file of the best ticket; None if no trial may win, for the reason in `summary.selected.reason`."""
        name = self.summary.selected.ticket
        return None if name is None else self.folder / name

    def winner(self) -> Path:
        """The same for those who cannot do without."""
        if self.best is None:
            raise TicketsError(f"{self.folder} holds no best ticket: {self.summary.selected.reason}")
        return self.best

    def ticket(self) -> "LoadedTicket":
        """The best ticket, ready to predict."""
        from tune_tickets.models.loading import load_ticket

        return load_ticket(self.winner())

    def table(self, top: int = 10, width: int = 150) -> str:
        """The closing table of the command line as text, `width` characters wide."""
        text = StringIO()
        print_table(self.summary, Console(file=text, width=width, force_jupyter=False), top)
        return text.getvalue()

    def trials(self) -> list[dict[str, Any]]:
        """Trials as flat rows, such as `pandas.DataFrame(result.trials())` takes: state, settings, then metrics."""
        return [
            {"trial": trial.number, "id": trial.id, "status": trial.status, "feasible": trial.feasible}
            | trial.params
            | trial.metrics
            for trial in self.summary.trials
        ]

    def __repr__(self) -> str:
        """One line: a summary is too long for the end of a cell."""
        best = self.best.name if self.best else "no ticket may win"
        count = len(self.summary.trials)
        return f"Result({self.summary.experiment}: {self.summary.status}, {count} trials, {best}, in {self.folder})"


def tune(
    experiment: Experiment | str | Path | Mapping[str, Any],
    output: str | Path | None = None,
    *,
    resume: bool = False,
    progress: bool | Callable[[Event], None] = True,
) -> Result:
    """Run a search and keep the best ticket, as `tune-tickets run` does; interrupting it keeps what is finished.

    `experiment` may also be a YAML file or a dictionary. `progress` is one line on stderr, or a function of events.

    >>> result = tune(Experiment.load("reviews.yaml", {"search.trials": 4}), output="results/reviews")
    >>> result.best
    PosixPath('results/reviews/best_ticket.safetensors')
    """
    loaded = _loaded(experiment)
    warm_starts(loaded)
    results = place_results(loaded, None if output is None else Path(output))
    from tune_tickets.search.run import run_experiment  # Ray, MLflow and torch, once the experiment is known to fit

    line = SearchLine(trials_wanted(loaded)) if progress is True else None
    try:
        finished = run_experiment(loaded, results, line or (progress if callable(progress) else _quiet), resume)
    finally:
        if line is not None:
            line.end()
    return Result(results.folder, finished.summary, finished.problems)


def _loaded(experiment: Experiment | str | Path | Mapping[str, Any]) -> Experiment:
    if isinstance(experiment, Experiment):
        return experiment
    if isinstance(experiment, Mapping):
        return Experiment.from_dict(experiment)
    return Experiment.load(experiment)


def _quiet(event: Event) -> None:
    """Says nothing."""


def report(results: Result | str | Path) -> Path:
    """Write report.html and report.md anew into a results folder; gives the path of the HTML page.

    >>> report("results/reviews")
    PosixPath('results/reviews/report.html')
    """
    from tune_tickets.reports.gallery import make_report

    return make_report(results.folder if isinstance(results, Result) else Path(results).expanduser()).html
