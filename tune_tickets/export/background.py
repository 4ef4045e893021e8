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
    found = _outcome(summary, subject)
    return Background(summary.experiment, _task(folder, found[0]), found[1]) if found is not None else Background()


def _outcome(summary: Summary, subject: Subject) -> tuple[str | None, Outcome] | None:
    """The ticket's figures, and the further task of `transfer:` that they were measured on, if on one."""
    assert subject.ticket is not None
    story = subject.ticket.metadata
    winner = next((trial for trial in summary.trials if trial.id == summary.selected.trial), None)
    if winner is None or winner.outcome is None:
        return None
    candidates = [(None, winner.outcome), *((further.name, further.outcome) for further in winner.outcome.transfers)]
    # The file may have been replaced since: figures are only taken from the model they were measured on.
    same = [found for found in candidates if _rounded(found[1].metrics()) == _rounded(story.metrics)]
    return same[0] if same and winner.params == story.params else None


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in metrics.items()}


def _task(folder: Path, further: str | None) -> str | None:
    """Where the task's rows come from; of a file on the author's machine only its name."""
    try:
        document, _ = read_yaml(folder / CONFIG)
        section = document if further is None else document["transfer"][further]
        source = str(section["task"]["source"])
    except (TicketsError, KeyError, TypeError):
        return None
    return Path(source).name if Path(source).is_absolute() else source
