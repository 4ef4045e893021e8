"""The verb `export`: a ticket as a folder for transformers, for our own loader or for onnxruntime."""

from pathlib import Path

from rich.console import Console

from tune_tickets.export.card import FILE
from tune_tickets.export.exporting import export_ticket
from tune_tickets.reports.table import say
from tune_tickets.results.folder import best_ticket


def export(source: str, form: str, output: Path | None, force: bool, task: str | None) -> None:
    """Export, tell the steps on stderr, and print where the folder is."""
    steps = Console(stderr=True)
    best = best_ticket(source)  # which says why there is none
    named = best if task is None else source
    folder = export_ticket(named, form, output, force, task, lambda text: say(steps, text, style="dim"))
    megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    say(Console(), f"{folder} ({megabytes:.1f} MB); how to use it is in its {FILE}")
