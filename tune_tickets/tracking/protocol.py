"""What the driver asks of a tracker, and the choice between MLflow and none. This file does not import mlflow."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tune_tickets.config.search import Tracking
from tune_tickets.results.records import (
    Confirmation,
    ControlRecord,
    SearchStatus,
    Summary,
    ThreatRecord,
    TrialRecord,
)
from tune_tickets.tracking.place import artifact_folder, database_uri, follow_move


@dataclass(frozen=True)
class RowsRecord:
    """Rows that a run reads. Equal digests mean equal texts and labels in the same order."""

    name: str
    context: str
    """Their purpose: 'train', 'select' or 'ood'."""
    digest: str
    source: str
    rows: int
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def profile(self) -> str:
        """Return sizes and names as JSON, for MLflow."""
        return json.dumps({"num_rows": self.rows, "columns": list(self.columns), "labels": list(self.labels)})


@dataclass(frozen=True)
class SearchInputs:
    """The rows and threat models that all runs of a search share."""

    rows: tuple[RowsRecord, ...] = ()
    threats: tuple[ThreatRecord, ...] = ()


def threat_tags(threats: Iterable[ThreatRecord]) -> dict[str, str]:
    """Return fingerprint and resources of every threat model, as tags of a run."""
    tags = {}
    for threat in threats:
        tags[f"threat.{threat.name}"] = threat.fingerprint
        tags[f"threat.{threat.name}.resources"] = json.dumps(threat.resources, sort_keys=True)
    return tags


class AnyTracker:
    """Logs a search. This base class logs nothing, for `tracking.mlflow: false`.

    Methods never raise and can be repeated; `problems` says what could not be logged. Artifacts map a path inside the
    run, such as "attacks/textfooler.parquet", to a file or folder on disk.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be logged, one sentence each, to be shown at the end."""
        return ()

    def has_ended(self, trial_id: str) -> bool:
        """Return whether the end of a trial was logged completely."""
        return True

    def log_inputs(self, inputs: SearchInputs) -> None:
        """Log the rows and threat models that all later runs share."""

    def start_trial(self, trial_id: str, number: int, params: Mapping[str, Any]) -> None:
        """Log that a trial starts, or resumes after an interruption. A complete trial is not changed."""

    def log(self, trial_id: str, metrics: Mapping[str, float], step: int) -> None:
        """Add one point to the curves of a trial. NaN is skipped; the first value at a step stays."""

    def finish_trial(self, trial: TrialRecord, artifacts: Mapping[str, Path]) -> None:
        """Log files, metrics and tags of a trial that ended, and its status last."""

    def log_control(self, control: ControlRecord, artifacts: Mapping[str, Path]) -> None:
        """Log a control."""

    def finish(self, summary: Summary, artifacts: Mapping[str, Path]) -> None:
        """Log what is missing, the winner, the front and the summary, and end the run of the search."""

    def register(self, summary: Summary, tickets: Mapping[str, tuple[Path, tuple[str, ...]]]) -> None:
        """Register the winner's ticket files and the text columns they read, by task; the main task is ''."""

    def log_confirmation(self, confirmation: Confirmation, status: SearchStatus, artifacts: Mapping[str, Path]) -> None:
        """Log one run per confirmed model and seed. The search itself had ended with `status`."""


def open_tracker(
    tracking: Tracking, results: Path, name: str, settings: dict[str, Any], config_digest: str, search: str = ""
) -> AnyTracker:
    """Open the tracker of the `tracking:` section; by default MLflow with SQLite inside `results`.

    Args:
        tracking: The section.
        results: The results folder.
        name: The name of the experiment.
        settings: The whole configuration, which is logged.
        config_digest: Its digest.
        search: An id that differs between searches of the same configuration on the same server.

    Raises:
        TicketsError: The store of MLflow cannot be used.
    """
    if not tracking.mlflow:
        return AnyTracker()
    from tune_tickets.tracking.tracker import Tracker  # imports mlflow, which takes seconds

    if tracking.uri is None:
        follow_move(results)
    uri = tracking.uri or database_uri(results)
    return Tracker(uri, artifact_folder(results), tracking.experiment or name, settings, config_digest, search)
