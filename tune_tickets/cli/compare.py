"""The verb `compare`: finished experiments side by side."""

from pathlib import Path

from rich.console import Console

from tune_tickets.errors import TicketsError
from tune_tickets.reports.side_by_side import comparison_markdown, print_comparison, read_finished, side_by_side


def compare(folders: list[Path], json: Path | None, markdown: Path | None) -> None:
    """Print the comparison, and write it to the files asked for."""
    experiments = read_finished(folders)
    found = side_by_side(experiments)
    print_comparison(experiments, found, Console())
    if json is not None:
        _write(json, found.model_dump_json(indent=2) + "\n")
    if markdown is not None:
        _write(markdown, comparison_markdown(experiments, found))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TicketsError(
            f"{path} cannot be written: {error.strerror}. Name a file in a folder that is there."
        ) from None
