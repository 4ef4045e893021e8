"""`report`: the page of a finished search from Python."""

from pathlib import Path

from tune_tickets.api.search import Result


def report(results: Result | str | Path) -> Path:
    """Write report.html and report.md anew into a results folder; gives the path of the HTML page.

    >>> report("results/reviews")
    PosixPath('results/reviews/report.html')
    """
    from tune_tickets.tuning.reporting import make_report

    return make_report(results.folder if isinstance(results, Result) else Path(results).expanduser()).html
