"""The verbs `run` and `resume`: load, search with a live view, print the closing table."""

import shlex
import sys
from pathlib import Path

from rich.console import Console

from tune_tickets.config import Experiment, load_experiment
from tune_tickets.errors import ConfigError
from tune_tickets.results.folder import Results, finished_results, place_results
from tune_tickets.search.space import trials_wanted, warm_start_note, warm_starts


def run(
    path: Path, overrides: list[str], output: Path | None, resume: bool, store: str | None, retry_errors: bool
) -> None:
    """Run a search and keep the best ticket."""
    if store is not None:
        overrides = [*overrides, f"store={store}"]
    experiment = load_experiment(path, overrides)
    if retry_errors and not resume:
        raise ConfigError("--retry-errors tries failed trials of an earlier session again: it goes with --resume")
    warm_starts(experiment)
    search(experiment, place_results(experiment, output), resume, retry_errors)


def resume(folder: Path, overrides: list[str], store: str | None, retry_errors: bool) -> None:
    """Go on with the search of a results folder, as its own configuration says."""
    config = folder / "config.yaml"
    if not config.is_file():
        raise ConfigError(
            f"there is no config.yaml in {folder}: no search has begun there. Start one with tune-tickets run"
        )
    experiment = load_experiment(config, overrides)
    search(experiment, finished_results(folder, experiment.settings, store), True, retry_errors)


def search(experiment: Experiment, results: Results, resumed: bool, retry_errors: bool) -> None:
    """Search with a live view, then the closing table."""
    console = Console()
    console.print(f"Experiment [b]{experiment.settings.name}[/b] -> {results.folder}", highlight=False)
    # Ray, MLflow and torch take seconds: only now, when the file is known to be right.
    from tune_tickets.cli.live import make_view
    from tune_tickets.reports.table import print_table
    from tune_tickets.search.run import run_experiment
    from tune_tickets.search.samplers import sampler_note

    for note in filter(None, (sampler_note(experiment), warm_start_note(experiment))):
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    with make_view(trials_wanted(experiment), console) as view:
        finished = run_experiment(experiment, results, view.handle, resumed, retry_errors)
    summary = finished.summary
    print_table(summary, console)
    lines = list(finished.problems)
    if summary.selected.ticket is not None:
        ticket = str(results.folder / summary.selected.ticket)
        lines.append(f"Best ticket: {ticket}  (tune_tickets.load_ticket turns it back into a model)")
    if results.substitutions.exists():
        lines.append(f"What the attacks changed, a sample to judge: {results.substitutions}")
    if results.pictures.is_dir():
        lines.append(f"Pictures: {results.pictures}")
    if results.report.exists():
        lines.append(f"Report: {results.report}")
    lines.append(f"Compare the trials: tune-tickets ui {shlex.quote(str(results.folder))}")
    if summary.status == "stopped":
        lines.append(f"Stopped: {summary.stopped_by}. Raise it and go on with:\n  {_command(results)} search.budget...")
    if summary.status == "interrupted":
        lines.append(f"Interrupted. Nothing finished is lost; go on with:\n  {_command(results)}")
    console.print("\n" + "\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if summary.status == "interrupted":
        sys.exit(130)


def _command(results: Results) -> str:
    """What goes on with the search of a results folder; a store that would not be found there is named."""
    words = ["tune-tickets", "resume", str(results.folder)]
    near = {str(place / "store") for place in (results.folder, results.folder.parent)}
    return shlex.join([*words, *([] if results.store_url in near else ["--store", results.store_url])])
