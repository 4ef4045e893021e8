"""What an extension goes through: validate, plan, run, `kill -9` of the driver, resume, MLflow, table, report page."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.integration.conftest import ROOT
from tests.integration.test_search import runs_of, summary_of
from tune_tickets.results.records import Summary

TRIALS = 2
SMALL = (
    f"search.trials={TRIALS}",
    "search.concurrency=1",
    "search.warm_starts=[]",
    "retraining.epochs=2",
    "evaluation.rows=2",
    "controls.dense=false",
)


@dataclass
class Chain:
    """The command line on one experiment file, and what it has left."""

    yaml: Path
    out: Path
    cli: Callable[..., tuple[int, str]]
    start: Callable[..., "Popen[str]"]

    def looks(self, *overrides: str) -> str:
        """Validate and plan; returns the printed plan."""
        code, printed = self.cli("validate", self.yaml, *SMALL, *overrides)
        assert code == 0, printed
        assert "is valid" in printed
        code, printed = self.cli("plan", self.yaml, *SMALL, *overrides)
        assert code == 0, printed
        return printed

    def killed(self, *overrides: str) -> None:
        """Run a search and kill its driver once a trial is done and another one is not."""
        process = self.start("run", self.yaml, *SMALL, *overrides, "--output", self.out)
        deadline = time.monotonic() + 400
        while not (self.out / "trials.jsonl").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        ended = (self.out / "trials.jsonl").read_text(encoding="utf-8").splitlines()
        assert 1 <= len({json.loads(line)["id"] for line in ended}) < TRIALS

    def resumed(self) -> tuple[Summary, str]:
        """Resume the search; returns its summary and the closing table."""
        code, printed = self.cli("resume", self.out)
        assert code == 0, printed
        assert "Traceback" not in printed
        summary = summary_of(self.out)
        assert summary.status == "finished"
        assert [trial.status for trial in summary.trials] == ["complete"] * TRIALS
        return summary, printed

    def tracked(self) -> list[Any]:
        """The MLflow runs of the trials, in their order, all finished."""
        runs = runs_of(self.out)
        assert {run.info.status for run in runs} == {"FINISHED"}
        trials = sorted((run for run in runs if run.info.run_name.startswith("trial")), key=lambda r: r.info.run_name)
        assert len(trials) == TRIALS
        return trials

    def page(self) -> str:
        """The report page."""
        return (self.out / "report.html").read_text(encoding="utf-8")


def importable(environment: dict[str, str], *folders: Path) -> None:
    """Put the folder of the tests, and others, where the driver and its workers import from."""
    before = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), str(ROOT), *before])
