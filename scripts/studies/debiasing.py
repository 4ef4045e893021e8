"""`python scripts/studies/debiasing.py`: does a product of experts find subnetworks that rely less on a planted bias?

Every seed has its own rows, fine-tuning and masks. Both losses start from the same fine-tuned model. Stages are kept in
`--store`, so an interrupted study continues where it stopped.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from scipy.stats import t as student

from tune_tickets.config import load_experiment
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.methods.srnets import SRNets
from tune_tickets.results.records import Outcome
from tune_tickets.search.preflight import preflight

_YAML = Path(__file__).with_suffix(".yaml")
_LOSS = "method.debiasing.loss"


@dataclass(frozen=True)
class Run:
    """Accuracy of a model in percent: in distribution (ID), and where the marker mostly misleads (OOD)."""

    seed: int
    model: str
    id: float
    ood: float
    groups: dict[str, float]


@dataclass(frozen=True)
class Margin:
    """Difference of two models over seeds, in points: its mean and 95% interval by Student's t."""

    mean: float
    low: float
    high: float


def study(
    yaml: Annotated[Path, typer.Option(help="Experiment whose method.debiasing.loss is searched")] = _YAML,
    seeds: Annotated[int, typer.Option(min=2)] = 3,
    store: Annotated[str, typer.Option(help="Stage store, a folder or URL")] = "results/debiasing-study",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
) -> None:
    """Compare mask training with cross entropy and with a product of experts over several seeds."""
    runs: list[Run] = []
    typer.echo(f"{'seed':>4}  {'model':16} {'ID':>6} {'OOD':>6}  by agreement of marker and label")
    for seed in range(seeds):
        for run in _runs(yaml, [*(overrides or []), f"seed={seed}"], seed, store):
            runs.append(run)
            shares = "  ".join(f"{name} {value:.1f}" for name, value in run.groups.items())
            typer.echo(f"{run.seed:>4}  {run.model:16} {run.id:6.1f} {run.ood:6.1f}  {shares}")
    margins = {figure: margin(runs, figure) for figure in ("ood", "id")}
    for figure, found in margins.items():
        text = f"{found.mean:+.1f} points, 95% interval {found.low:+.1f} to {found.high:+.1f}"
        typer.echo(f"masks with PoE minus masks with CE, {figure.upper()}: {text} ({seeds} seeds)")
    typer.echo(verdict(margins["ood"], margins["id"]))
    if json_file is not None:
        content = {"runs": [asdict(run) for run in runs], **{name: asdict(found) for name, found in margins.items()}}
        json_file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def margin(runs: Sequence[Run], figure: str) -> Margin:
    """Return PoE minus CE, paired by seed."""
    values = {(run.seed, run.model): getattr(run, figure) for run in runs}
    seeds = sorted({run.seed for run in runs})
    differences = [values[seed, "masks, poe"] - values[seed, "masks, ce"] for seed in seeds]
    mean = sum(differences) / len(seeds)
    variance = sum((difference - mean) ** 2 for difference in differences) / (len(seeds) - 1)
    half = float(student.ppf(0.975, len(seeds) - 1)) * (variance / len(seeds)) ** 0.5
    return Margin(mean, mean - half, mean + half)


def verdict(ood: Margin, in_distribution: Margin) -> str:
    """Return the conclusion that the margins allow."""
    if in_distribution.mean < -5:
        return "No gain to speak of: in distribution PoE loses more than 5 points."
    return (
        "PoE beats CE out of distribution." if ood.low > 0 else "The seeds do not tell PoE from CE out of distribution."
    )


def _runs(yaml: Path, overrides: list[str], seed: int, store: str) -> list[Run]:
    experiment = load_experiment(yaml, overrides)
    # The study is about bias, so it runs no attacks.
    world = replace(preflight(experiment, Store(store)), threats=())
    runs: list[Run] = []
    for loss in experiment.domains[_LOSS].corners():
        settings = experiment.at({_LOSS: loss})
        pipeline = Flow(settings, world, LocalRunner(store, settings.resources))
        if not runs:
            assert isinstance(settings.method, SRNets)
            finetuning = settings.method.finetuning
            dense = Flow(settings.model_copy(update={"retraining": finetuning}), world, pipeline.runner)
            runs.append(_run(seed, "fine-tuned, ce", dense.dense_control(_unheard)))
        runs.append(_run(seed, f"masks, {loss}", pipeline.find_ticket(_unheard)))
    return runs


def _run(seed: int, model: str, outcome: Outcome) -> Run:
    (twin,) = outcome.ood
    return Run(seed, model, outcome.clean.accuracy, twin.value, dict(twin.groups))


def _unheard(record: dict[str, object]) -> None:
    """Ignore the records of epochs."""


if __name__ == "__main__":
    typer.run(study)
