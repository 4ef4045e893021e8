"""`python scripts/studies/kills.py EXPERIMENT.yaml`: does a search survive many kills of its driver?

The search runs once without interruption, then with `kill -9` of its driver at random moments, each followed by a
resume. Both must end with the same trials, params, metrics and values.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tune_tickets.config import Experiment, load_experiment
from tune_tickets.config.search import NoScheduler
from tune_tickets.results.records import TrialRecord
from tune_tickets.results.summary import read_summary

_COMMAND = (sys.executable, "-m", "tune_tickets.cli")
_STARTED = " started"
"""The driver prints this when the first trial starts, after its imports and checks."""
_DYING_SECONDS = 4.0
"""How long the workers of a killed driver may stay alive."""
_RESULTS = "*/*/result*.json"
_EARLY = 0.25
"""The share of kills before the first trial starts."""
Way = Literal["order", "set", "recomputed"]


@dataclass
class Figures:
    """Cost and effect of the kills."""

    kills: int = 0
    before_search: int = 0
    undisturbed_seconds: float = 0.0
    disturbed_seconds: float = 0.0
    stages_cut_off: int = 0
    lost_seconds: float = 0.0
    """Computing time after the last checkpoint of the interrupted stages."""
    longest_loss: float = 0.0
    finished_stages: int = 0
    repeated_stages: int = 0
    """Finished stages that were computed again."""
    mlflow_runs: dict[str, int] = field(default_factory=dict)
    mlflow_doubled: int = 0
    compared_by: Way = "order"
    trials: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the kills changed nothing."""
        closed = set(self.mlflow_runs) <= {"FINISHED", "FAILED"}
        return closed and not (self.differences or self.mlflow_doubled or self.repeated_stages)


def study(
    yaml: Annotated[Path, typer.Argument(metavar="EXPERIMENT.yaml")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    kills: Annotated[int, typer.Option(min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the times of the kills")] = 0,
    span: Annotated[
        float, typer.Option(help="Kill within this many seconds after the last stage that a driver may finish")
    ] = 3.0,
    output: Annotated[Path, typer.Option(help="A folder for both searches")] = Path("results/kills"),
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    """Kill the driver of a search many times and compare the results with an uninterrupted search."""
    output.mkdir(parents=True, exist_ok=True)
    run = [*_COMMAND, "run", str(yaml), *(overrides or []), "--output"]
    whole, killed = output / "undisturbed", output / "killed"
    driver = Driver([*run, str(whole)], output / "undisturbed.log")
    begun, figures = driver.wait_for_search(), Figures()
    figures.undisturbed_seconds = driver.wait_for_end()
    typer.echo(f"undisturbed: {figures.undisturbed_seconds:.0f} s, {begun:.0f} s of them before the first trial")
    stages = len(list((whole / "store").glob(_RESULTS)))
    moments = Moments(random.Random(seed), kills, begun, stages, span, killed / "store")
    _disturb([*run, str(killed)], killed, moments, figures)
    figures.mlflow_runs, figures.mlflow_doubled = _mlflow(killed)
    _compare(load_experiment(yaml, overrides or []), whole, killed, output / "recomputed", figures)
    for name, value in asdict(figures).items():
        typer.echo(f"{name.replace('_', ' ')}: {value if not isinstance(value, float) else f'{value:.1f}'}")
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(figures), indent=1), encoding="utf-8")
    if not figures.good:
        raise typer.Exit(1)


class Driver:
    """A driver in its own process, with its output in a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log, self._began = log, time.monotonic()
        with log.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)

    def wait_for_search(self) -> float:
        """Wait until the first trial starts, and return the seconds."""
        while self.process.poll() is None and _STARTED not in self._log.read_text(encoding="utf-8"):
            time.sleep(0.1)
        return time.monotonic() - self._began

    def wait_for_end(self) -> float:
        """Wait until it ends with exit code 0, and return the seconds."""
        if self.process.wait() != 0:
            raise RuntimeError(f"a driver failed:\n{self._log.read_text(encoding='utf-8')}")
        return time.monotonic() - self._began

    def kill_after(self, seconds: float, late: Callable[[], bool]) -> bool:
        """Kill it after some seconds or as soon as `late()` is true. Return False if it has ended before."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() >= deadline or late():
                self.process.kill()
                self.process.wait()
                return True
            time.sleep(0.02)
        return False


@dataclass
class Moments:
    """When drivers are killed: some during their start, most during the search, after a random number of stages."""

    random: random.Random
    left: int
    begun: float
    stages: int
    """Stages of the whole search. Each driver may finish only its share, so that the search outlasts the kills."""
    span: float
    store: Path

    def kill(self, driver: Driver, figures: Figures) -> bool:
        """Kill a driver at the next random time. Return whether it was killed."""
        if self.left == 0:
            return False
        before = self._finished()
        share = max(0, self.stages - before) // self.left
        self.left -= 1
        early, stages = self.random.random() < _EARLY, self.random.randint(0, share)
        after = self.random.uniform(0.0, self.begun if early else self.span)
        if not early:
            driver.wait_for_search()
            while driver.process.poll() is None and self._finished() < before + stages:
                time.sleep(0.05)
        if not driver.kill_after(after, lambda: self._finished() > before + share):
            return False
        figures.kills += 1
        figures.before_search += early
        return True

    def _finished(self) -> int:
        return len(list(self.store.glob(_RESULTS)))


def _disturb(run: list[str], folder: Path, moments: Moments, figures: Figures) -> None:
    """Start and kill drivers one after the other. The last one may end."""
    started, finished = time.monotonic(), dict[Path, int]()
    while True:
        session = time.time()
        command = [*_COMMAND, "resume", str(folder)] if (folder / "config.yaml").exists() else run
        driver = Driver(command, folder.with_name(f"{folder.name}-{figures.kills:02d}.log"))
        if not moments.kill(driver, figures):
            break
        _count_losses(folder / "store", session, time.time(), figures)
        _count_repeated(folder / "store", finished, figures)
        typer.echo(f"kill {figures.kills}: {len(finished)} stages finished, {figures.lost_seconds:.1f} s lost so far")
    driver.wait_for_end()
    _count_repeated(folder / "store", finished, figures)
    figures.finished_stages = len(finished)
    figures.disturbed_seconds = time.monotonic() - started


def _count_losses(store: Path, session: float, now: float, figures: Figures) -> None:
    """Count interrupted stages: their leases are still there."""
    time.sleep(_DYING_SECONDS)
    for lease in store.glob("*/*/lease.json"):
        since = json.loads(lease.read_text())["since"]
        if not session < since < now or any(
            result.stat().st_mtime > since for result in lease.parent.glob("result*.json")
        ):
            continue
        checkpoint = lease.with_name("checkpoint.json")
        kept = max(since, json.loads(checkpoint.read_text())["taken"]) if checkpoint.exists() else since
        loss = max(0.0, now - kept)
        figures.stages_cut_off += 1
        figures.lost_seconds += loss
        figures.longest_loss = max(figures.longest_loss, loss)


def _count_repeated(store: Path, finished: dict[Path, int], figures: Figures) -> None:
    """Count results that were written, and therefore computed, again."""
    for result in store.glob(_RESULTS):
        written = result.stat().st_mtime_ns
        figures.repeated_stages += finished.get(result, written) != written
        finished[result] = written


def _mlflow(folder: Path) -> tuple[dict[str, int], int]:
    """Return the number of runs by status, and the number of runs with a repeated name."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder.resolve()}/mlflow.db")
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    names = Counter(run.info.run_name for run in runs)
    return dict(Counter(run.info.status for run in runs)), sum(names.values()) - len(names)


def _compare(experiment: Experiment, whole: Path, killed: Path, store: Path, figures: Figures) -> None:
    """Compare trials in order, as a set, or each with a new run of its settings, as far as they are deterministic."""
    search = experiment.settings.search
    fixed = search.sampler in ("random", "grid") and isinstance(search.scheduler, NoScheduler)
    figures.compared_by = "order" if search.concurrency == 1 else "set" if fixed else "recomputed"
    wanted, found = (list(read_summary(folder).trials) for folder in (whole, killed))
    figures.trials = len(found)
    if len(found) != len(wanted) or [trial.number for trial in found] != list(range(len(wanted))):
        figures.differences.append(f"trials {[trial.id for trial in found]} instead of {len(wanted)}")
    if figures.compared_by == "recomputed":
        wanted, found = _recomputed(experiment, found, store), [trial for trial in found if trial.outcome is not None]
    pairs = [[_seen(trial) for trial in trials] for trials in (wanted, found)]
    if figures.compared_by == "set":
        pairs = [sorted(trials) for trials in pairs]
    figures.differences += [f"{one} became {other}" for one, other in zip(*pairs, strict=False) if one != other]


def _seen(trial: TrialRecord) -> str:
    seen = trial.model_dump(
        mode="json", include={"status", "params", "metrics", "values", "bound", "feasible", "error"}
    )
    return json.dumps(seen, sort_keys=True)


def _recomputed(experiment: Experiment, trials: list[TrialRecord], store: Path) -> list[TrialRecord]:
    """Return the measured trials with the metrics of a new run of their params."""
    from tune_tickets.engine.runner import LocalRunner
    from tune_tickets.engine.store import Store
    from tune_tickets.methods.base import Flow
    from tune_tickets.search.preflight import preflight

    world, again = preflight(experiment, Store(str(store))), []
    for trial in trials:
        if trial.outcome is not None:
            settings = experiment.at(trial.params)
            outcome = Flow(settings, world, LocalRunner(str(store), settings.resources)).find_ticket(_unheard)
            again.append(trial.model_copy(update={"metrics": outcome.metrics()}))
    return again


def _unheard(record: dict[str, Any]) -> None:
    """Ignore the records of epochs."""


if __name__ == "__main__":
    typer.run(study)
