"""What the driver asks of a tracker, the tracker that keeps nothing, and the choice between it and MLflow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tune_tickets.config.search import Tracking
from tune_tickets.results.records import Confirmation, ControlRecord, SearchStatus, Summary, TrialRecord
from tune_tickets.tracking.inputs import SearchInputs
from tune_tickets.tracking.place import artifact_folder, database_uri, follow_move


class AnyTracker(Protocol):
    """Keeps what was tried. Calls never raise and may be repeated; `problems` says what could not be kept.

    Artifacts map a path inside the run ("attacks/textfooler.parquet") to a file or folder on disk.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be kept, one sentence each; to be shown at the end."""

    def has_ended(self, trial_id: str) -> bool:
        """Whether the end of a trial has been kept, files and all."""

    def log_inputs(self, inputs: SearchInputs) -> None:
        """The rows and threat models that all runs from here on share."""

    def start_trial(self, trial_id: str, number: int, params: Mapping[str, Any]) -> None:
        """A trial begins, or goes on after an interruption."""

    def log(self, trial_id: str, metrics: Mapping[str, float], step: int) -> None:
        """One point of a trial's curves; NaN is left out, the first value at a step stays."""

    def finish_trial(self, trial: TrialRecord, artifacts: Mapping[str, Path]) -> None:
        """A trial ended: figures, status and files."""

    def log_control(self, control: ControlRecord, artifacts: Mapping[str, Path]) -> None:
        """A control was measured."""

    def finish(self, summary: Summary, artifacts: Mapping[str, Path]) -> None:
        """The search ended: what is still missing, the winner, the front and the summary."""

    def register(self, summary: Summary, tickets: Mapping[str, tuple[Path, tuple[str, ...]]]) -> None:
        """The winner's ticket files and the texts they read, by task; the search's own task is ''."""

    def log_confirmation(self, confirmation: Confirmation, status: SearchStatus, artifacts: Mapping[str, Path]) -> None:
        """Tickets of a search were confirmed; the search itself had ended with `status`."""


class NullTracker:
    """For `tracking.mlflow: false`."""

    problems: tuple[str, ...] = ()

    def has_ended(self, trial_id: str) -> bool:
        """There is nothing to be kept."""
        return True

    def log_inputs(self, inputs: SearchInputs) -> None:
        """Nothing is kept."""

    def start_trial(self, trial_id: str, number: int, params: Mapping[str, Any]) -> None:
        """Nothing is kept."""

    def log(self, trial_id: str, metrics: Mapping[str, float], step: int) -> None:
        """Nothing is kept."""

    def finish_trial(self, trial: TrialRecord, artifacts: Mapping[str, Path]) -> None:
        """Nothing is kept."""

    def log_control(self, control: ControlRecord, artifacts: Mapping[str, Path]) -> None:
        """Nothing is kept."""

    def finish(self, summary: Summary, artifacts: Mapping[str, Path]) -> None:
        """Nothing is kept."""

    def register(self, summary: Summary, tickets: Mapping[str, tuple[Path, tuple[str, ...]]]) -> None:
        """Nothing is kept."""

    def log_confirmation(self, confirmation: Confirmation, status: SearchStatus, artifacts: Mapping[str, Path]) -> None:
        """Nothing is kept."""


def open_tracker(
    tracking: Tracking, results: Path, name: str, settings: dict[str, Any], config_digest: str, search: str = ""
) -> AnyTracker:
    """The tracker that the `tracking:` section asks for; by default MLflow with SQLite inside `results`.

    `search` tells a search from others of the same configuration on the same server.
    """
    if not tracking.mlflow:
        return NullTracker()
    from tune_tickets.tracking.tracker import Tracker  # imports mlflow, which takes seconds

    if tracking.uri is None:
        follow_move(results)
    uri = tracking.uri or database_uri(results)
    return Tracker(uri, artifact_folder(results), tracking.experiment or name, settings, config_digest, search)
