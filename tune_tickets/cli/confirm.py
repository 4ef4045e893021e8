"""The verb `confirm`: the best tickets of a search on fresh seeds and report rows."""

from pathlib import Path

from rich.console import Console

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError
from tune_tickets.results.folder import finished_results, write_whole
from tune_tickets.results.summary import read_summary


def confirm(folder: Path, top: int, seeds: int, rows: int | None, store: str | None) -> None:
    """Confirm, write confirm.json, print the table."""
    summary = read_summary(folder)
    config = folder / "config.yaml"
    if not config.is_file():
        raise ConfigError(f"there is no config.yaml in {folder}: name the folder as the search has left it")
    experiment = load_experiment(config)
    results = finished_results(folder, experiment.settings, store)
    # Ray, MLflow and torch take seconds: only now, when there is something to confirm.
    from tune_tickets.cli.live import make_view
    from tune_tickets.reports.confirmed import print_confirmation
    from tune_tickets.reports.gallery import draw_pictures, leave_report
    from tune_tickets.search.confirming import choose
    from tune_tickets.search.confirming import confirm as confirm_tickets
    from tune_tickets.tracking.protocol import open_tracker

    console = Console()
    chosen = choose(summary, top)
    console.print(f"Confirming {', '.join(trial.id for trial in chosen)} of {results.folder}", highlight=False)
    with results.alone():
        with make_view(0, console) as view:
            found = confirm_tickets(experiment, summary, results, top, seeds, rows, view.handle)
        write_whole(results.confirmation, found.model_dump_json(indent=2) + "\n")
        pictures, undrawn = draw_pictures(results, summary)  # again, with means and deviations over the seeds
        report = leave_report(results.folder)
        files = {results.confirmation.name: results.confirmation} | pictures | report.files
        settings = experiment.settings
        # Last: an open tracker shows the search as running until the confirmation is in it.
        tracker = open_tracker(
            settings.tracking,
            results.folder,
            settings.name,
            experiment.resolved(),
            summary.config_digest,
            results.search_id,
        )
        tracker.log_confirmation(found, summary.status, files)
    print_confirmation(found, console)
    ends = (f"All figures: {results.confirmation}", f"Pictures: {results.pictures}", f"Report: {results.report}")
    for line in (*undrawn, *report.problems, *tracker.problems, *ends):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
