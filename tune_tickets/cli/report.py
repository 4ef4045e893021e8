"""The verb `report`: the page of a finished search."""

import webbrowser
from pathlib import Path

from rich.console import Console

from tune_tickets.reports.gallery import make_report


def report(folder: Path, open_browser: bool) -> None:
    """Write report.html and report.md into the results folder."""
    console = Console()
    with console.status("Writing the report"):
        files = make_report(folder)
    size = files.html.stat().st_size / 1e6
    for line in (f"Report: {files.html} ({size:.1f} MB, works without a network)", f"Markdown: {files.markdown}"):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if open_browser:
        webbrowser.open(files.html.as_uri())
