"""The verbs for finished searches: `compare`, `pictures` and `report`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tune_tickets.cli.options import ResultsFolder, SearchStore
from tune_tickets.cli.run import config_of
from tune_tickets.errors import ConfigError, TicketsError

if TYPE_CHECKING:
    from tune_tickets.results.folder import Results
    from tune_tickets.results.records import Summary

_SAME = ("model", "task", "transfer", "method", "retraining", "ablation", "evaluation")
"""Sections that must be equal in searches with different seeds."""


def compare(
    results: Annotated[list[Path], typer.Argument(metavar="RESULTS", help="Two or more results folders")],
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write everything as JSON")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write it as a Markdown page")
    ] = None,
) -> None:
    """Compare finished experiments: winners, controls, paired tests, settings that differ."""
    from tune_tickets.reports.side_by_side import comparison_markdown, print_comparison, read_finished, side_by_side

    experiments = read_finished(results)
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
            f"{path} cannot be written: {error.strerror}. Name a file in a folder that exists."
        ) from None


def pictures(
    results: ResultsFolder,
    beside: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SEED", help="Results of the same experiment with other seeds: then means are over seeds"
        ),
    ] = None,
    store: SearchStore = None,
) -> None:
    """Draw the pictures of a finished search again, as SVG and PNG, into RESULTS/pictures."""
    place, summary = _finished(results, store)
    others = [_finished(other, None) for other in beside or []]
    for other, _ in others:
        _check_same(place, other)
    # Imports torch and matplotlib, which take seconds, so first the folders were checked.
    from tune_tickets.reports.gallery import draw_pictures
    from tune_tickets.reports.pictures.style import LEFT_OUT

    files, problems = draw_pictures(place, summary, others)
    if not files:
        raise TicketsError(" ".join(problems))
    drawn = sum(name.endswith(".svg") for name in files)
    lines = [*problems, f"{drawn} picture{'s' * (drawn != 1)}, as SVG and PNG: {place.pictures}"]
    left_out = place.pictures / LEFT_OUT
    if left_out.is_file():
        lines += ["Left out, because there are no data:", left_out.read_text(encoding="utf-8").rstrip()]
    Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _finished(folder: Path, store: str | None) -> tuple[Results, Summary]:
    from tune_tickets.config import load_experiment
    from tune_tickets.results.folder import finished_results
    from tune_tickets.results.summary import read_summary

    summary = read_summary(folder)
    return finished_results(folder, load_experiment(config_of(folder)).settings, store), summary


def _check_same(results: Results, other: Results) -> None:
    """Check that two searches differ only in their seed, so that a mean over them makes sense."""
    from tune_tickets.config import load_experiment

    ours, theirs = (load_experiment(each.config).resolved() for each in (results, other))
    different = [section for section in _SAME if ours[section] != theirs[section]]
    if different:
        raise ConfigError(
            f"{other.folder} differs from {results.folder} in {', '.join(different)}: a mean over seeds needs the same "
            "experiment, run with seed=1, seed=2 and so on. To compare different experiments, use compare"
        )


def report(
    results: ResultsFolder,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser")] = False,
) -> None:
    """Write the report of a search: one HTML page that works offline, and the same in Markdown."""
    from tune_tickets.reports.gallery import make_report

    console = Console()
    with console.status("Writing the report"):
        files = make_report(results)
    size = files.html.stat().st_size / 1e6
    for line in (f"Report: {files.html} ({size:.1f} MB, works offline)", f"Markdown: {files.markdown}"):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if open_browser:
        webbrowser.open(files.html.as_uri())
