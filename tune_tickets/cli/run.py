"""The verb `run`: load, search with a live view, print the closing table."""

import shlex
import sys
from pathlib import Path

from rich.console import Console

from tune_tickets.config import load_experiment
from tune_tickets.space import warm_starts
from tune_tickets.tuning.results import place_results


def run(path: Path, overrides: list[str], output: Path | None, resume: bool, store: str | None) -> None:
    """Run a search and keep the best ticket."""
    if store is not None:
        overrides = [*overrides, f"store={store}"]
    experiment = load_experiment(path, overrides)
    warm_starts(experiment)
    results = place_results(experiment, output)
    console = Console()
    console.print(f"Experiment [b]{experiment.settings.name}[/b] -> {results.folder}", highlight=False)
    # Ray, MLflow and torch take seconds: only now, when the file is known to be right.
    from tune_tickets.cli.live import make_view
    from tune_tickets.report.table import print_table
    from tune_tickets.tuning.run import run_experiment

    with make_view(experiment.settings.search.trials, console) as view:
        finished = run_experiment(experiment, results, view.handle, resume)
    summary = finished.summary
    print_table(summary, console)
    lines = list(finished.problems)
    if summary.selected.ticket is not None:
        ticket = str(results.folder / summary.selected.ticket)
        lines.append(f"Best ticket: {ticket}  (tune_tickets.load_ticket turns it back into a model)")
    if results.substitutions.exists():
        lines.append(f"What the attacks changed, a sample to judge: {results.substitutions}")
    lines.append(f"Compare the trials: tune-tickets ui {shlex.quote(str(results.folder))}")
    if summary.status == "interrupted":
        words = ["tune-tickets", "run", str(path), *overrides, "--output", str(results.folder), "--resume"]
        lines.append(f"Interrupted. Finished stages are kept; go on with:\n  {shlex.join(words)}")
    console.print("\n" + "\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if summary.status == "interrupted":
        sys.exit(130)
