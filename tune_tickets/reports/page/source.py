"""The source of a report: a results folder with its objective and, if there is one, its confirmation."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tune_tickets.config.objective import Objective
from tune_tickets.config.source import read_yaml
from tune_tickets.errors import TicketsError
from tune_tickets.reports.side_by_side import Finished, read_results
from tune_tickets.results.folder import Results
from tune_tickets.results.records import CONFIRM_SCHEMA, Confirmation, Summary
from tune_tickets.results.summary import FILE_NAME


@dataclass(frozen=True)
class Source:
    """One search and its confirmation."""

    finished: Finished
    objective: Objective
    confirmation: Confirmation | None = None

    @property
    def summary(self) -> Summary:
        """The summary of the search."""
        return self.finished.summary


def read_source(folder: Path) -> Source:
    """Read a results folder.

    Raises:
        TicketsError: a file is missing or does not fit.
    """
    folder = folder.parent if folder.name == FILE_NAME else folder
    finished = read_results(folder.resolve())
    results = Results(folder, store_url="")
    document, _ = read_yaml(results.config)
    try:
        objective = Objective.model_validate(document.get("objective") or {}, strict=False)  # YAML has no tuples
    except ValidationError as error:
        raise TicketsError(f"{results.config} has an objective that does not fit: {error}") from error
    return Source(finished, objective, read_confirmation(results.confirmation))


def read_confirmation(path: Path) -> Confirmation | None:
    """Read what `confirm` wrote; None if it was not run.

    Raises:
        TicketsError: the file does not fit, or another release wrote it.
    """
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = Confirmation.model_validate(data)
    except ValueError as error:
        raise TicketsError(f"{path} cannot be read: {error}. Remove it, or run confirm again.") from error
    if found.schema_version != CONFIRM_SCHEMA:
        raise TicketsError(f"{path} has schema version {found.schema_version}, this release reads {CONFIRM_SCHEMA}.")
    return found
