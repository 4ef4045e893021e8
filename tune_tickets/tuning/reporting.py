"""The report of a search, made when it ends and again when asked for."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from tune_tickets.reporting.page.writing import ReportFiles, write_report
from tune_tickets.reporting.pictures.saving import saved_pictures

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeftReport:
    """`files` to attach, by name; `problems` says why there are none."""

    files: dict[str, Path] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def make_report(folder: Path) -> ReportFiles:
    """Write the report of a results folder with the pictures in it."""
    return write_report(folder, saved_pictures(folder))


def leave_report(folder: Path) -> LeftReport:
    """The same at the end of a search, which no trouble with a page may lose: it is told, not raised."""
    try:
        found = make_report(folder)
    except Exception as error:
        logger.debug("no report", exc_info=True)
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        return LeftReport(problems=(f"The report could not be written ({reason}): tune-tickets report {folder}",))
    return LeftReport({found.html.name: found.html, found.markdown.name: found.markdown})
