"""`tune` runs a search from Python, `Result` reads what it wrote, `report` writes its report."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
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
    """One line that is overwritten on terminals and in notebooks. Elsewhere only `lasting` lines are printed."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._lock, self._written, self._width = threading.Lock(), float("-inf"), 0
        self._redraws = self._stream.isatty() or "ipykernel" in sys.modules

    def show(self, text: str, lasting: bool) -> None:
        """Write a line. Lines that are not `lasting` are skipped if they cannot be overwritten or come too fast."""
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
        """Start a new line, so that the next output does not follow on this one."""
        if self._redraws and self._width:
            self._stream.write("\n")


class SearchLine(_Line):
    """Shows the counts of trials, the best value so far and the time left. A note gets its own line."""

    def __init__(self, trials: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._board, self._telling = Board(trials, clock), threading.Lock()

    def __call__(self, event: Event) -> None:
        """Take one event of a running search. Any thread may call this."""
        with self._telling:
            if isinstance(event, Note):
                self._board.recall(event)
                self.show(event.text, lasting=True)
                self.end()
                return
            self._board.apply(event)
            self.show(f"{self._board.counts()}; {self._board.outlook()}", isinstance(event, TrialFinished))


class AttackLine(_Line):
    """Shows how many rows of one attack are done."""

    def __init__(
        self, title: str, rows: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, clock)
        self._title, self._rows = title, rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` rows are done."""
        self.show(f"{self._title}: {done} of {total} rows", lasting=done == total)


@dataclass(frozen=True, repr=False)
class Result:
    """A finished search: its results folder and its summary.

    `tune` returns one; `Result.load` reads one from a results folder.

    >>> result = Result.load("results/reviews")
    >>> print(result.table())
    >>> result.ticket().predict(["a gripping, beautifully acted film"])
    """

    folder: Path
    summary: Summary
    problems: tuple[str, ...] = ()
    """What could not be logged to MLflow. Nothing else is lost."""

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """Read the results folder of a finished search.

        Args:
            folder: The results folder; it contains summary.json.

        Returns:
            The search, with `folder` as an absolute path.

        Raises:
            TicketsError: There is no summary in the folder, or it cannot be read.
        """
        place = Path(folder).expanduser().resolve()
        return cls(place, read_summary(place))

    @property
    def best(self) -> Path | None:
        """The file of the ticket of the first rank, or None if no trial qualified (see `summary.selected.reason`).

        The dense model may be better than this ticket: `summary.verdict` says whether to ship it.
        """
        name = self.summary.selected.ticket
        return None if name is None else self.folder / name

    def winner(self) -> Path:
        """Like `best`, but raise if there is no winner.

        Raises:
            TicketsError: No trial qualified; the message says why.
        """
        if self.best is None:
            raise TicketsError(f"{self.folder} holds no best ticket: {self.summary.selected.reason}")
        return self.best

    def ticket(self) -> "LoadedTicket":
        """Load the best ticket as a model.

        Returns:
            The ticket; `predict` takes texts.

        Raises:
            TicketsError: No trial qualified, or the file cannot be read.
        """
        from tune_tickets.models.loading import load_ticket

        return load_ticket(self.winner())

    def table(self, top: int = 10, width: int = 150) -> str:
        """Return the table that the command line prints after a search.

        Args:
            top: How many trials to show.
            width: Width of the table in characters.
        """
        text = StringIO()
        print_table(self.summary, Console(file=text, width=width, force_jupyter=False), top)
        return text.getvalue()

    def trials(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per trial: state, hyperparameters, then metrics.

        >>> pandas.DataFrame(result.trials())
        """
        return [
            {"trial": trial.number, "id": trial.id, "status": trial.status, "feasible": trial.feasible}
            | trial.params
            | trial.metrics
            for trial in self.summary.trials
        ]

    def __repr__(self) -> str:
        """Return one line, because a whole summary is too long for a notebook."""
        best = self.best.name if self.best else "no winner"
        if self.summary.verdict is not None:
            best = f"{self.summary.verdict.kind}, {best}"
        count = len(self.summary.trials)
        return f"Result({self.summary.experiment}: {self.summary.status}, {count} trials, {best}, in {self.folder})"


def tune(
    experiment: Experiment | str | Path | Mapping[str, Any],
    output: str | Path | None = None,
    *,
    resume: bool = False,
    progress: bool | Callable[[Event], None] = True,
) -> Result:
    """Run a search and keep the best ticket, as `tune-tickets run` does.

    An interrupted search keeps its finished trials, and can be resumed.

    Args:
        experiment: An `Experiment`, the path of a YAML file, or a dictionary of its sections.
        output: The results folder; `results/<name>-<time>` if None.
        resume: Resume the experiment in `output`.
        progress: True shows one line on stderr, False shows nothing. A function is called with every event of the
            search, from any thread.

    Returns:
        The results folder and the summary of the search.

    Raises:
        ConfigError: The experiment is not valid, or differs from the one to resume.
        DataError: The rows of the task cannot be used.
        ResourceError: A model, data or a resource of an attack is missing.
        SearchStopped: Too many trials failed in a row, or the disk is full.

    >>> result = tune(Experiment.load("reviews.yaml", {"search.trials": 4}), output="results/reviews")
    >>> result.best
    PosixPath('results/reviews/best_ticket.safetensors')
    """
    loaded = _loaded(experiment)
    warm_starts(loaded)
    results = place_results(loaded, None if output is None else Path(output))
    from tune_tickets.search.run import run_experiment  # imports Ray, MLflow and torch, so check first

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
    """Ignore the event."""


def report(results: Result | str | Path) -> Path:
    """Write the report of a search: report.html and report.md in its results folder.

    Args:
        results: A finished search, or its results folder.

    Returns:
        The path of the HTML page.

    Raises:
        TicketsError: The folder holds no finished search, or one of its files cannot be read.

    >>> report("results/reviews")
    PosixPath('results/reviews/report.html')
    """
    from tune_tickets.reports.gallery import make_report

    return make_report(results.folder if isinstance(results, Result) else Path(results).expanduser()).html
