"""`summary.json`: the whole search in one file of the results folder."""

import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tune_tickets.errors import TicketsError
from tune_tickets.files import write_atomic
from tune_tickets.results.records import SUMMARY_SCHEMA, Summary

FILE_NAME = "summary.json"


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of `summary.json`."""
    return Summary.model_json_schema(mode="serialization")


def write_summary(summary: Summary, folder: Path) -> Path:
    """Write `summary.json` into a folder, atomically, and return its path."""
    target = folder / FILE_NAME
    write_atomic(target, _without_nan(summary).model_dump_json(indent=2) + "\n")
    return target


def read_summary(folder: Path) -> Summary:
    """Read `summary.json` from a results folder.

    Raises:
        TicketsError: there is none, it cannot be read, or it has another schema version.
    """
    path = folder / FILE_NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise TicketsError(
            f"There is no {FILE_NAME} in {folder}: give the results folder of a search that has ended."
        ) from None
    except (OSError, ValueError) as error:
        raise TicketsError(
            f"{path} cannot be read: {error}. Run the search again; finished stages are kept."
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SUMMARY_SCHEMA:
        raise TicketsError(
            f"{path} has schema version {version}, this release reads {SUMMARY_SCHEMA}: "
            "use the release of tune_tickets that wrote it."
        )
    try:
        return Summary.model_validate(data)
    except ValidationError as error:
        raise TicketsError(f"{path} does not fit the schema of a summary: {error}") from error


def _without_nan(summary: Summary) -> Summary:
    # JSON has no NaN: metrics that diverged are left out.
    trials = tuple(
        trial.model_copy(update={"metrics": {k: v for k, v in trial.metrics.items() if math.isfinite(v)}})
        for trial in summary.trials
    )
    return summary.model_copy(update={"trials": trials})
