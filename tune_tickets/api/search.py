"""`tune`: a search from Python, and what it leaves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tune_tickets.api.progress import SearchLine
from tune_tickets.config import Experiment
from tune_tickets.errors import TicketsError
from tune_tickets.records import Summary
from tune_tickets.reporting.progress import Event
from tune_tickets.reporting.summary import read_summary
from tune_tickets.reporting.table import print_table
from tune_tickets.space import trials_wanted, warm_starts
from tune_tickets.tuning.results import place_results

if TYPE_CHECKING:
    from tune_tickets.models.loading import LoadedTicket


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
    from tune_tickets.tuning.run import run_experiment  # Ray, MLflow and torch, once the experiment is known to fit

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
