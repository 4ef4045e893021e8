"""What the results folder around a ticket tells of it: experiment, task, and figures with their fingerprints."""

from dataclasses import dataclass
from pathlib import Path

from tune_tickets.config.source import read_yaml
from tune_tickets.errors import TicketsError
from tune_tickets.export.subject import Subject
from tune_tickets.records import Outcome, Summary
from tune_tickets.reporting.summary import read_summary

CONFIG = "config.yaml"


@dataclass(frozen=True)
class Background:
    """Empty for a ticket that lies alone."""

    experiment: str | None = None
    task: str | None = None
    outcome: Outcome | None = None


def background_of(subject: Subject) -> Background:
    """Read the summary beside the ticket, if it tells of this very ticket; a file that cannot be read tells nothing."""
    if subject.ticket is None or subject.file is None:
        return Background()
    folder = subject.file.resolve().parent
    try:
        summary = read_summary(folder)
    except TicketsError:
        return Background()
    outcome = _outcome(summary, subject)
    return Background(summary.experiment, _task(folder), outcome) if outcome is not None else Background()


def _outcome(summary: Summary, subject: Subject) -> Outcome | None:
    assert subject.ticket is not None
    story = subject.ticket.metadata
    winner = next((trial for trial in summary.trials if trial.id == summary.selected.trial), None)
    if winner is None or winner.outcome is None:
        return None
    candidates = (winner.outcome, *(transfer.outcome for transfer in winner.outcome.transfers))
    # The file may have been replaced since: figures are only taken from the model they were measured on.
    same = [outcome for outcome in candidates if _rounded(outcome.metrics()) == _rounded(story.metrics)]
    return same[0] if same and winner.params == story.params else None


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in metrics.items()}


def _task(folder: Path) -> str | None:
    """The task's name; of a file on the author's machine only the file's."""
    try:
        document, _ = read_yaml(folder / CONFIG)
        source = str(document["task"]["source"])
    except (TicketsError, KeyError, TypeError):
        return None
    return Path(source).name if Path(source).is_absolute() else source
