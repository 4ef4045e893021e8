"""The verbs that compute: `run` and `resume` a search, and `confirm` its best tickets."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tune_tickets.cli.options import Offline, Output, Overrides, ResultsFolder, RetryErrors, SearchStore, Yaml
from tune_tickets.errors import ConfigError
from tune_tickets.offline import go_offline

if TYPE_CHECKING:
    from tune_tickets.config import Experiment
    from tune_tickets.results.folder import Results


def run(
    experiment: Yaml,
    overrides: Overrides = None,
    output: Output = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the experiment in --output")] = False,
    retry_errors: RetryErrors = False,
    store: Annotated[
        str | None, typer.Option(help="Stage store (folder or fsspec URL); default: next to the results")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to join: 'auto' on one of its nodes, or host:port; same as resources.address"),
    ] = None,
    offline: Offline = False,
) -> None:
    """Run a search and keep the best ticket."""
    if offline:
        go_offline()
    from tune_tickets.config import load_experiment
    from tune_tickets.results.folder import place_results
    from tune_tickets.search.space import warm_starts

    shorthands = {"resources.address": address, "store": store}
    extra = [f"{key}={value}" for key, value in shorthands.items() if value is not None]
    loaded = load_experiment(experiment, [*(overrides or []), *extra])
    if retry_errors and not resume:
        raise ConfigError("--retry-errors retries failed trials of an earlier session: use it with --resume")
    warm_starts(loaded)
    _search(loaded, place_results(loaded, output), resume, retry_errors)


def resume(
    results: ResultsFolder,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="A larger budget, e.g. search.budget.cpu_hours=8, more search.trials"),
    ] = None,
    retry_errors: RetryErrors = False,
    store: SearchStore = None,
    offline: Offline = False,
) -> None:
    """Resume a search that was interrupted or killed. Finished work is not repeated."""
    if offline:
        go_offline()
    from tune_tickets.config import load_experiment
    from tune_tickets.results.folder import finished_results

    config = results / "config.yaml"
    if not config.is_file():
        raise ConfigError(
            f"there is no config.yaml in {results}: no search was started there. Start one with tune-tickets run"
        )
    experiment = load_experiment(config, overrides or [])
    _search(experiment, finished_results(results, experiment.settings, store), True, retry_errors)


def _search(experiment: Experiment, results: Results, resumed: bool, retry_errors: bool) -> None:
    """Search with a live view, then print the closing table and what to do next."""
    console = Console()
    console.print(f"Experiment [b]{experiment.settings.name}[/b] -> {results.folder}", highlight=False)
    # Ray, MLflow and torch take seconds to import, so first the file was checked.
    from tune_tickets.cli.live import make_view
    from tune_tickets.reports.table import print_table
    from tune_tickets.search.run import run_experiment
    from tune_tickets.search.samplers import sampler_note
    from tune_tickets.search.space import trials_wanted, warm_start_note

    for note in filter(None, (sampler_note(experiment), warm_start_note(experiment))):
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    with make_view(trials_wanted(experiment), console) as view:
        finished = run_experiment(experiment, results, view.handle, resumed, retry_errors)
    summary = finished.summary
    print_table(summary, console)
    lines = list(finished.problems)
    if summary.selected.ticket is not None:
        ticket = str(results.folder / summary.selected.ticket)
        name = "Ticket of the first rank" if summary.selected.beaten else "Best ticket"
        lines.append(f"{name}: {ticket}  (load it with tune_tickets.load_ticket)")
    if results.substitutions.exists():
        lines.append(f"What the attacks changed, a sample to judge: {results.substitutions}")
    if results.pictures.is_dir():
        lines.append(f"Pictures: {results.pictures}")
    if results.report.exists():
        lines.append(f"Report: {results.report}")
    lines.append(f"Compare the trials: tune-tickets ui {shlex.quote(str(results.folder))}")
    if summary.status == "stopped":
        command = f"{_resume_command(results)} search.budget..."
        lines.append(f"Stopped: {summary.stopped_by}. Raise it and resume with:\n  {command}")
    if summary.status == "interrupted":
        lines.append(f"Interrupted. No finished work is lost; resume with:\n  {_resume_command(results)}")
    console.print("\n" + "\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if summary.status == "interrupted":
        sys.exit(130)


def _resume_command(results: Results) -> str:
    """Return the command that resumes a search. It names the store if `resume` would not find it."""
    words = ["tune-tickets", "resume", str(results.folder)]
    near = {str(place / "store") for place in (results.folder, results.folder.parent)}
    return shlex.join([*words, *([] if results.store_url in near else ["--store", results.store_url])])


def confirm(
    results: ResultsFolder,
    top: Annotated[int, typer.Option(min=1, help="How many of the best tickets")] = 3,
    seeds: Annotated[int, typer.Option(min=1, help="How many new seeds each is trained with")] = 5,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="How many report rows to attack; default: as many as select rows in the search"),
    ] = None,
    store: SearchStore = None,
    offline: Offline = False,
) -> None:
    """Retrain the best tickets with new seeds and measure them once on the report rows, together with controls."""
    if offline:
        go_offline()
    from tune_tickets.config import load_experiment
    from tune_tickets.files import write_atomic
    from tune_tickets.results.folder import finished_results
    from tune_tickets.results.summary import read_summary

    summary = read_summary(results)
    experiment = load_experiment(config_of(results))
    settings, place = experiment.settings, finished_results(results, experiment.settings, store)
    # Ray, MLflow and torch take seconds to import, so first the folder was checked.
    from tune_tickets.cli.live import make_view
    from tune_tickets.reports.confirmed import print_confirmation
    from tune_tickets.reports.gallery import draw_pictures, leave_report
    from tune_tickets.search.confirming import choose
    from tune_tickets.search.confirming import confirm as confirm_tickets
    from tune_tickets.tracking.protocol import open_tracker

    console = Console()
    chosen = choose(summary, top)
    console.print(f"Confirming {', '.join(trial.id for trial in chosen)} of {place.folder}", highlight=False)
    with place.alone():
        with make_view(0, console) as view:
            found = confirm_tickets(experiment, summary, place, top, seeds, rows, view.handle)
        write_atomic(place.confirmation, found.model_dump_json(indent=2) + "\n")
        pictures, undrawn = draw_pictures(place, summary)  # again, with means and deviations over the seeds
        report = leave_report(place.folder)
        files = {place.confirmation.name: place.confirmation} | pictures | report.files
        # Last: while a tracker is open, MLflow shows the search as running.
        tracker = open_tracker(
            settings.tracking,
            place.folder,
            settings.name,
            experiment.resolved(),
            summary.config_digest,
            place.search_id,
        )
        tracker.log_confirmation(found, summary.status, files)
    print_confirmation(found, console)
    ends = (f"All metrics: {place.confirmation}", f"Pictures: {place.pictures}", f"Report: {place.report}")
    for line in (*undrawn, *report.problems, *tracker.problems, *ends):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def config_of(folder: Path) -> Path:
    """Return the configuration file in a results folder; raises ConfigError if it is missing."""
    config = folder / "config.yaml"
    if not config.is_file():
        raise ConfigError(f"there is no config.yaml in {folder}: name the folder that the search wrote, unchanged")
    return config
