"""Speed-up of two workers over one on the same search, and the overhead of Ray, Optuna and MLflow per trial."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benches.timing import Json, write_json
from tune_tickets.config import load_experiment
from tune_tickets.results.folder import Results
from tune_tickets.results.records import Summary
from tune_tickets.search.progress import Event, TrialFinished, TrialStarted
from tune_tickets.search.run import run_experiment

YAML = """\
name: bench
model: {{source: {model}}}
task:
  source: {data}
  max_length: {tokens}
  rows: {{train: {train_rows}, select: {select_rows}, report: 32}}
method:
  kind: earlyrobust
  batch_size: {batch}
  learning_rate: 2.0e-4
  coefficient_learning_rate: 2.0e-3
  gamma: 0.0
  adversary: {{kind: none}}
  penalty_heads: {{log_uniform: [1.0e-5, 1.0e-3]}}
  drawing: {{heads: 1/4, neurons: 0.3}}
retraining: {{epochs: {epochs}, batch_size: {batch}, learning_rate: 2.0e-4}}
evaluation: {{attacks: [textbugger/minilm], rows: {attacked_rows}, probe: {{rows: 16, steps: 1}}}}
objective: {{floor_points: null}}
controls: {{dense: false}}
search: {{trials: {trials}, sampler: random, scheduler: {{kind: none}}}}
resources: {{cpus: 1}}
"""
_CPUS = "RAY_OVERRIDE_RESOURCES"
"""Ray's variable for the resources of a node. It sets the number of workers on any machine."""
_STEPS = """
import sys, time, torch
torch.set_num_threads(1)
layer, rows = torch.nn.TransformerEncoderLayer(384, 12, 1536, batch_first=True), torch.randn(16, 64, 384)
layer(rows).sum().backward()
began = time.perf_counter()
for _ in range(int(sys.argv[1])):
    layer(rows).sum().backward()
print(time.perf_counter() - began)
"""
_ROUNDS = 3
_SMALL = ("search.trials=1", "retraining.epochs=1", "evaluation.rows=1")


@dataclass
class Watched:
    """The times of one search."""

    started: list[float] = field(default_factory=list)
    finished: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    """From the call to the summary, including the start of Ray and the closing."""
    summary: Summary | None = None

    def hear(self, event: Event) -> None:
        """Record the start and end of trials."""
        if isinstance(event, TrialStarted):
            self.started.append(time.monotonic())
        elif isinstance(event, TrialFinished):
            if event.status != "complete":
                raise SystemExit(f"trial {event.number} ended as {event.status}: {event.note}")
            self.finished[int(event.number)] = time.monotonic()

    @property
    def trials_seconds(self) -> float:
        """From the start of the first trial to the end of the last."""
        return max(self.finished.values()) - min(self.started)

    def overhead(self) -> float:
        """Return the seconds per trial in addition to its stages. Trials must run one by one; the first is excluded."""
        assert self.summary is not None
        first, *others = sorted(self.finished, key=self.finished.__getitem__)
        window = self.finished[others[-1]] - self.finished[first]
        return (window - sum(self.stage_seconds(number) for number in others)) / len(others)

    def stage_seconds(self, number: int) -> float:
        """Computing time of the stages that a trial did not find in the store."""
        assert self.summary is not None
        trial = next(trial for trial in self.summary.trials if trial.number == number)
        return sum(stage.seconds for stage in trial.stages if not stage.cached)


def bench(
    trials: Annotated[
        int, typer.Option(min=2, help="Trials per search; an even number, or one worker is idle at the end")
    ] = 4,
    train_rows: Annotated[int, typer.Option(help="Training rows; with --epochs, they set the length of a trial")] = 640,
    epochs: Annotated[int, typer.Option(help="Epochs of retraining; finding the ticket takes one more")] = 2,
    attacked_rows: Annotated[int, typer.Option(help="Number of rows to attack")] = 16,
    select_rows: Annotated[int, typer.Option(help="Number of select rows")] = 128,
    batch: Annotated[int, typer.Option(help="Rows per batch")] = 32,
    tokens: Annotated[int, typer.Option(help="Largest number of tokens per text")] = 64,
    model: Annotated[str, typer.Option(help="A transformers folder, or 'bundled'")] = "bundled",
    data: Annotated[str, typer.Option(help="A file, or 'bundled/...'")] = "bundled/rotten-tomatoes",
    steps: Annotated[
        int, typer.Option(help="Training steps of a single layer, to measure the limit of the machine")
    ] = 60,
    json: Json = None,
) -> None:
    """Run the same search with one worker, with two workers, and with all stages in the store."""
    console = Console()
    settings = {name: value for name, value in locals().items() if name not in ("json", "console")}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        yaml = root / "bench.yaml"
        yaml.write_text(YAML.format(**settings), encoding="utf-8")
        # Not timed: the first search pays for the imports of the driver, and one worker would look too slow.
        _search(yaml, 1, root / "warm-up", str(root / "store-warm-up"), f"task.rows.train={batch}", *_SMALL)
        runs = {}
        for name, workers, store in (("one", 1, "one"), ("two", 2, "two"), ("cached", 1, "one")):
            console.print(f"{name}: {workers} worker{'s' * (workers > 1)}, {trials} trials ...", highlight=False)
            runs[name] = _search(yaml, workers, root / name, str(root / f"store-{store}"))
    report = _report(runs, _ceiling(steps), settings)
    for line in _lines(report):
        console.print(line, highlight=False, soft_wrap=True)
    write_json(report, json)


def _search(yaml: Path, workers: int, folder: Path, store: str, *overrides: str) -> Watched:
    """Run a search in a Ray session with this many workers and an empty cache for attacks."""
    experiment = load_experiment(yaml, [f"search.concurrency={workers}", *overrides])
    watched = Watched()
    with _environment(TUNE_TICKETS_CACHE=f"{folder}-cache", **{_CPUS: f'{{"CPU": {workers}}}'}):
        began = time.monotonic()
        watched.summary = run_experiment(experiment, Results(folder, store), watched.hear).summary
        watched.seconds = time.monotonic() - began
    return watched


def _report(runs: Mapping[str, Watched], ceiling: float, settings: Mapping[str, Any]) -> dict[str, Any]:
    one, two, cached = runs["one"], runs["two"], runs["cached"]
    trials = len(one.finished)
    assert cached.summary is not None
    return {
        "settings": dict(settings),
        "stage_seconds": {name: [round(run.stage_seconds(n), 3) for n in run.finished] for name, run in runs.items()},
        "seconds": {name: round(run.seconds, 3) for name, run in runs.items()},
        "trials_seconds": {name: round(run.trials_seconds, 3) for name, run in runs.items()},
        "ratio": round(one.seconds / two.seconds, 4),
        "trials_ratio": round(one.trials_seconds / two.trials_seconds, 4),
        "machine_ratio": round(ceiling, 4),
        "overhead": {"computed": round(one.overhead(), 4), "cached": round(cached.trials_seconds / trials, 4)},
        "computed_when_cached": sum(use.computed for use in cached.summary.stages.values()),
    }


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    seconds, trials = report["seconds"], report["trials_seconds"]
    yield (
        f"one worker {seconds['one']:.1f} s, two {seconds['two']:.1f} s: {report['ratio']:.2f}x as fast (1.7 wanted), "
        f"without start and closing {trials['one']:.1f} s and {trials['two']:.1f} s, {report['trials_ratio']:.2f}x"
    )
    yield f"limit of this machine, two separate processes against one: {report['machine_ratio']:.2f}x"
    shown = report["overhead"]
    yield (
        f"in addition to its stages a trial takes {shown['computed']:.2f} s once workers are warm (2 s allowed), "
        f"with all stages in the store {shown['cached']:.2f} s"
    )


def _ceiling(steps: int) -> float:
    """Return the speed-up of two single-thread processes over one: 2 if they do not slow each other down."""

    def seconds(processes: int) -> float:
        command = [sys.executable, "-c", _STEPS, str(steps)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        return max(float(process.communicate()[0]) for process in running)

    rounds = [(seconds(1), seconds(2)) for _ in range(_ROUNDS)]
    return 2 * min(one for one, _ in rounds) / min(two for _, two in rounds)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
