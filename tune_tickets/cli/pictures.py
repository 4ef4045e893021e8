"""The verb `pictures`: draw a finished search again, perhaps with searches of other seeds beside it."""

from pathlib import Path

from rich.console import Console

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.reports.pictures.style import LEFT_OUT
from tune_tickets.results.folder import Results, finished_results
from tune_tickets.results.records import Summary
from tune_tickets.results.summary import read_summary

_SAME = ("model", "task", "transfer", "method", "retraining", "ablation", "evaluation")
"""Sections in which searches of other seeds must agree."""


def pictures(folder: Path, beside: list[Path], store: str | None) -> None:
    """Draw, save, and say what was left out."""
    results, summary = _finished(folder, store)
    others = [_finished(other, None) for other in beside]
    for other, _ in others:
        _check_same(results, other)
    from tune_tickets.reports.gallery import draw_pictures  # imports torch and matplotlib, which take seconds

    files, problems = draw_pictures(results, summary, others)
    if not files:
        raise TicketsError(" ".join(problems))
    drawn = sum(name.endswith(".svg") for name in files)
    lines = [*problems, f"{drawn} picture{'s' * (drawn != 1)}, as SVG and PNG: {results.pictures}"]
    left_out = results.pictures / LEFT_OUT
    if left_out.is_file():
        lines += ["Left out, as there are no data:", left_out.read_text(encoding="utf-8").rstrip()]
    Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _finished(folder: Path, store: str | None) -> tuple[Results, Summary]:
    summary = read_summary(folder)
    config = folder / "config.yaml"
    if not config.is_file():
        raise ConfigError(f"there is no config.yaml in {folder}: name the folder as the search has left it")
    return finished_results(folder, load_experiment(config).settings, store), summary


def _check_same(results: Results, other: Results) -> None:
    """Means over seeds are over models that differ in nothing else."""
    ours, theirs = (load_experiment(each.config).resolved() for each in (results, other))
    apart = [section for section in _SAME if ours[section] != theirs[section]]
    if apart:
        raise ConfigError(
            f"{other.folder} differs from {results.folder} in {', '.join(apart)}: a mean over seeds needs the same "
            "experiment, run with seed=1, seed=2 and so on. To put different ones side by side, use compare"
        )
