"""`python scripts/cluster/autoscale_study.py EXPERIMENT.yaml [KEY=VALUE]... --nodes 3`: test autoscaling.

The search starts on a cluster without workers. Its pending stages request nodes all at once, one node is killed while
it computes, and all nodes are removed after the search. The exit code is 1 unless the requested number of nodes was
reached, no trial was lost, and all nodes were removed after the idle timeout (plus some slack).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fake_cluster import FakeCluster

SLACK_SECONDS = 30.0
"""Time beyond the idle timeout that the autoscaler and the end of a raylet may take on a busy machine."""


@dataclass
class Study:
    """What was observed."""

    asked: int
    idle_timeout: float
    peak: int = 0
    peak_busy: int = 0
    killed: str | None = None
    ups: list[tuple[float, int]] = field(default_factory=list)
    """Every change of the number of workers: seconds since the start of the search, workers alive."""
    search_exit: int | None = None
    trials: int = 0
    complete: int = 0
    seconds_to_zero: float | None = None

    def faults(self, kill: bool) -> list[str]:
        """Return what went wrong."""
        late = self.seconds_to_zero is None or self.seconds_to_zero > self.idle_timeout + SLACK_SECONDS
        found = {
            f"the search ended with {self.search_exit}": self.search_exit != 0,
            f"{self.peak} nodes at the peak, {self.asked} requested": self.peak != self.asked,
            f"{self.peak_busy} of {self.asked} nodes computed at the same time": self.peak_busy != self.asked,
            f"{self.complete} of {self.trials} trials are complete": self.complete != self.trials or not self.trials,
            f"idle nodes were removed after {self.seconds_to_zero} s": late,
            "no node could be killed while it computed": kill and self.killed is None,
        }
        return [text for text, wrong in found.items() if wrong]


def watch(cluster: FakeCluster, search: "subprocess.Popen[str]", study: Study, kill: bool) -> None:
    """Watch the cluster until the search has ended and the last worker is removed."""
    import ray

    began, ended, printed = time.monotonic(), None, -1
    while True:
        now = time.monotonic()
        alive = sum(node["Alive"] and "GPU" in node["Resources"] for node in ray.nodes())
        computing = cluster.computing() if ended is None else {}
        if alive != printed:
            study.ups.append((round(now - began, 1), alive))
            print(f"{now - began:6.1f} s  {alive} workers", flush=True)
            printed = alive
        study.peak, study.peak_busy = max(study.peak, alive), max(study.peak_busy, len(computing))
        if kill and study.killed is None and len(computing) == alive == study.asked:
            raylet, study.killed = next(iter(computing.items()))
            cluster.kill_node(raylet)
            print(f"{now - began:6.1f} s  killed node ...{study.killed[-5:]} while it computed", flush=True)
        if ended is None and search.poll() is not None:
            ended, study.search_exit = now, search.returncode
            print(f"{now - began:6.1f} s  the search ended", flush=True)
        if ended is not None and (alive == 0 or now - ended > study.idle_timeout + SLACK_SECONDS):
            study.seconds_to_zero = round(now - ended, 1) if alive == 0 else None
            return
        time.sleep(0.5)


def run(options: argparse.Namespace, folder: Path) -> Study:
    """Run one search on one fake cluster."""
    study = Study(options.nodes, options.idle)
    with FakeCluster(folder, most=options.nodes + 2, idle_seconds=options.idle) as cluster:
        cluster.wait()
        cluster.join()
        import ray  # Ray reads the token at import

        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        command = [sys.executable, "-m", "tune_tickets.cli", "run", str(options.experiment), *options.overrides]
        # One stage per trial and no controls, so that the number of requested nodes is the number of parallel trials.
        command += [f"search.concurrency={options.nodes}", "resources.gpus=1", "controls.dense=false"]
        command += ["controls.random=false", "objective.floor_points=null", "evaluation.shard=100000"]
        command += ["--output", str(options.output), "--address", cluster.address]
        search = subprocess.Popen(command, env=cluster.environment, text=True)
        try:
            watch(cluster, search, study, options.kill)
        finally:
            search.kill()
            ray.shutdown()
    if (summary := options.output / "summary.json").exists():
        trials: list[dict[str, Any]] = json.loads(summary.read_text())["trials"]
        study.trials, study.complete = len(trials), sum(trial["status"] == "complete" for trial in trials)
    return study


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(
        description="Run a search on an autoscaling cluster of fake GPU nodes, and kill one node."
    )
    parser.add_argument("experiment", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--nodes", type=int, default=3, help="number of parallel trials, each on its own node")
    parser.add_argument("--idle", type=float, default=6.0, help="idle timeout of a node in seconds")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="do not kill a node")
    parser.add_argument("--output", type=Path, required=True, help="results folder of the search")
    parser.add_argument("--json", type=Path, help="write the observations to this file")
    options = parser.parse_intermixed_args()
    folder = Path(tempfile.mkdtemp(prefix="tt-"))  # short, because the paths of Ray's sockets are limited
    try:
        study = run(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    faults = study.faults(options.kill)
    print(json.dumps(asdict(study) | {"faults": faults}, indent=1))
    if options.json:
        options.json.write_text(json.dumps(asdict(study) | {"faults": faults}), encoding="utf-8")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
