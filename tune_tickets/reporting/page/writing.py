"""`report.html` and `report.md` in a results folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_tickets.errors import TicketsError
from tune_tickets.reporting.page.content import content_of
from tune_tickets.reporting.page.html import html_page
from tune_tickets.reporting.page.markdown import markdown_page
from tune_tickets.reporting.page.source import read_source
from tune_tickets.reporting.pictures.picture import Picture
from tune_tickets.reporting.pictures.saving import FOLDER

HTML_FILE = "report.html"
MARKDOWN_FILE = "report.md"


@dataclass(frozen=True)
class ReportFiles:
    """Where the two versions are."""

    html: Path
    markdown: Path


def write_report(folder: Path, pictures: Sequence[Picture] = ()) -> ReportFiles:
    """Make the report of a results folder anew from what lies in it."""
    source = read_source(folder)
    content = content_of(source, pictures)
    place = source.finished.folder
    drawn = [f"{FOLDER}/{path.name}" for path in (place / FOLDER).glob("*.png")]
    files = ReportFiles(place / HTML_FILE, place / MARKDOWN_FILE)
    _write(files.html, html_page(content))
    _write(files.markdown, markdown_page(content, drawn))
    return files


def _write(path: Path, text: str) -> None:
    """In one move: a reader sees the old page or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(partial, path)
    except OSError as error:
        raise TicketsError(
            f"{path} cannot be written: {error.strerror}. Copy the results to a folder that can be written to."
        ) from None
