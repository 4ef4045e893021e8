"""The events of a running search, and the board from which the live views are drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Who = int | str  # a trial's number, or the name of a control
UNSUCCESSFUL = ("pruned", "failed", "interrupted")


@dataclass(frozen=True)
class TrialStarted:
    """A trial starts, or a control, identified by its name."""

    number: Who
    params: Mapping[str, Any]


@dataclass(frozen=True)
class StageChanged:
    """A stage starts, or its result was in the store."""

    number: Who
    stage: str
    cached: bool


@dataclass(frozen=True)
class Progress:
    """How much of a stage is done, in units of the stage."""

    number: Who
    stage: str
    done: float
    total: float


@dataclass(frozen=True)
class EpochReport:
    """Metrics at the end of an epoch."""

    number: Who
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrialFinished:
    """A trial or control ended; `note` says why it failed or cannot win."""

    number: Who
    status: str
    values: tuple[float, ...] | None
    metrics: Mapping[str, float]
    note: str = ""
    feasible: bool = True

    @property
    def headline(self) -> str:
        """The first line of the note."""
        return self.note.partition("\n")[0]


@dataclass(frozen=True)
class Note:
    """A line about the whole search."""

    text: str


@dataclass(frozen=True)
class Resumed(Note):
    """A search is resumed; `trials` were finished by earlier sessions."""

    trials: tuple[TrialFinished, ...]


TrialEvent = TrialStarted | StageChanged | Progress | EpochReport | TrialFinished
Event = TrialEvent | Note


@dataclass
class Line:
    """The state of one trial or control; `share` is how much of its stage is done."""

    who: Who
    started: float
    stage: str = "waiting"
    stage_started: float | None = None
    cached: bool = False
    share: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    finish: TrialFinished | None = None
    ended: float = 0.0

    @property
    def name(self) -> str:
        """The name for people."""
        return f"trial {self.who}" if isinstance(self.who, int) else self.who


class Board:
    """The state of the search, built from its events."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self._total, self._clock, self._lines = total, clock, dict[Who, Line]()
        self._earlier: tuple[TrialFinished, ...] = ()
        self.began = clock()

    def recall(self, note: Note) -> None:
        """Count the trials of earlier sessions, if the note is about them."""
        if isinstance(note, Resumed):
            self._earlier = note.trials

    def apply(self, event: TrialEvent) -> Line:
        """Update the state. A trial that was not announced is added."""
        now = self._clock()
        if isinstance(event, TrialStarted) or event.number not in self._lines:
            self._lines[event.number] = Line(event.number, now)
        line = self._lines[event.number]
        if isinstance(event, StageChanged):
            line.stage, line.stage_started, line.cached, line.share = event.stage, now, event.cached, None
        elif isinstance(event, Progress):
            line.stage, line.share = event.stage, min(event.done / event.total, 1.0) if event.total > 0 else None
        elif isinstance(event, EpochReport):
            line.metrics = dict(event.metrics)
        elif isinstance(event, TrialFinished):
            line.finish, line.ended, line.metrics = event, now, dict(event.metrics) or line.metrics
        return line

    def ended_stage(self, event: TrialEvent) -> str:
        """Return which stage an event ends, such as 'find ended after 0:12', or ''. Call it before `apply`."""
        line = self._lines.get(event.number)
        if line is None or not isinstance(event, StageChanged | TrialFinished):
            return ""
        if line.stage_started is None or line.cached:
            return ""
        return f"{line.stage} ended after {clock_text(self._clock() - line.stage_started)}"

    @property
    def running(self) -> list[Line]:
        """Those that run, in the order of their start."""
        return [line for line in self._lines.values() if line.finish is None]

    @property
    def finished(self) -> list[Line]:
        """Those that ended, latest first."""
        return sorted((line for line in self._lines.values() if line.finish), key=lambda line: -line.ended)

    def last_failure(self) -> str:
        """Return the latest failed trial and the first line of its error, or ''."""
        for line in self.finished:
            if line.finish and line.finish.status == "failed":
                return f"{line.name} failed: {line.finish.headline}"
        return ""

    def counts(self) -> str:
        """Return how many trials (or models, if there is no number of trials) are done, running and lost."""
        counted = [line for line in self.finished if not self._total or isinstance(line.who, int)]
        ended = [trial.status for trial in self._earlier] + [line.finish.status for line in counted if line.finish]
        done = f"{len(ended)}/{self._total} trials done" if self._total else f"{len(ended)} models done"
        parts = [done, f"{len(self.running)} running"]
        return ", ".join(parts + [f"{ended.count(state)} {state}" for state in UNSUCCESSFUL if state in ended])

    def outlook(self) -> str:
        """Return the best objective so far, the elapsed time and the time left, estimated from the ended trials."""
        elapsed = self._clock() - self.began
        ended = sum(isinstance(line.who, int) for line in self.finished)
        left = elapsed / ended * max(self._total - len(self._earlier) - ended, 0) if ended else 0.0
        parts = [*self._best(), f"{clock_text(elapsed)} elapsed"]
        return ", ".join(parts + ([f"about {clock_text(left)} left"] if left else []))

    def _best(self) -> list[str]:
        own = [line.finish for line in self.finished if line.finish and isinstance(line.who, int)]
        able = [(trial.values, trial.number) for trial in (*self._earlier, *own) if trial.feasible and trial.values]
        if not able:
            return []
        vectors = [values for values, _ in able]
        if len(vectors[0]) > 1:
            front = [one for one in vectors if not any(_dominates(other, one) for other in vectors)]
            return [f"{len(front)} on the front"]
        best = max(vectors)
        # All equal trials are named: the winner is chosen when the search ends.
        equals = sorted((str(number) for values, number in able if values == best), key=int)
        return [f"best objective {values_text(best)} (trial{'s' * (len(equals) > 1)} {shortened(equals)})"]


def clock_text(seconds: float) -> str:
    """Return seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def shortened(names: list[str], most: int = 3) -> str:
    """Return the names in a row; of many only the first, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:most])} and {rest} more"


def values_text(values: tuple[float, ...]) -> str:
    """Return the objective, or the vector, as text."""
    return ", ".join(f"{value:z.3f}" for value in values)


def figures_text(metrics: Mapping[str, float], width: int | None = None) -> str:
    """Return metrics as 'clean 84.0, aua 23.0'; with a `width`, as many as fit."""
    text = ""
    for name, value in metrics.items():
        longer = f"{text}{', ' if text else ''}{name} {_number(value)}"
        if width is not None and len(longer) > width:
            break
        text = longer
    return text


def _number(value: float) -> str:
    """Return one decimal for percentages and counts, four digits for losses and rates."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and one != other
