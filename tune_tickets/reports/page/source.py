"""What a report is made of: a results folder read back, its objective and, if there is one, its confirmation."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tune_tickets.config.objective import Objective
from tune_tickets.config.source import read_yaml
from tune_tickets.errors import TicketsError
from tune_tickets.reports.side_by_side import CONFIG_FILE, Finished, read_results
from tune_tickets.results.records import CONFIRM_SCHEMA, Confirmation, Summary
from tune_tickets.results.summary import FILE_NAME

CONFIRM_FILE = "confirm.json"


@dataclass(frozen=True)
class Source:
    """One search, and what came after it."""

    finished: Finished
    objective: Objective
    confirmation: Confirmation | None = None

    @property
    def summary(self) -> Summary:
        """Of the search."""
        return self.finished.summary


def read_source(folder: Path) -> Source:
    """Read a results folder; errors say which file is missing or does not fit."""
    folder = folder.parent if folder.name == FILE_NAME else folder
    finished = read_results(folder.resolve())
    document, _ = read_yaml(folder / CONFIG_FILE)
    try:
        objective = Objective.model_validate(document.get("objective") or {}, strict=False)  # YAML has no tuples
    except ValidationError as error:
        raise TicketsError(f"{folder / CONFIG_FILE} has an objective that does not fit: {error}") from error
    return Source(finished, objective, read_confirmation(folder))


def read_confirmation(folder: Path) -> Confirmation | None:
    """What `confirm` has left in the folder, if it was called."""
    path = folder / CONFIRM_FILE
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = Confirmation.model_validate(data)
    except ValueError as error:
        raise TicketsError(f"{path} cannot be read: {error}. Take it away, or run confirm again.") from error
    if found.schema_version != CONFIRM_SCHEMA:
        raise TicketsError(f"{path} has schema version {found.schema_version}, this release reads {CONFIRM_SCHEMA}.")
    return found
