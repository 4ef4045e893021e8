"""`kill -9` of the driver at random times, as in scripts/studies/kills.py: the results must not change."""

import json
import subprocess
import sys
import time

import pytest

from tests.integration.conftest import ROOT, TAG, left_behind

SCRIPT = ROOT / "scripts" / "studies" / "kills.py"
SMALL = ["controls.dense=false", "objective.floor_points=null", "evaluation.rows=4"]
ASHA = "search.scheduler={kind: asha, grace_epochs: 1, reduction_factor: 2}"


@pytest.fixture
def study(tiny_yaml, environment, tmp_path):
    def run(kills: int, *overrides: str) -> dict:
        out = tmp_path / "figures.json"
        command = [sys.executable, str(SCRIPT), str(tiny_yaml), *SMALL, *overrides, "--kills", str(kills)]
        command += ["--seed", "1", "--output", str(tmp_path / "kills"), "--json", str(out)]
        ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        deadline = time.monotonic() + 120  # Ray's agents look for the rest of a killed session for a minute
        while left_behind(environment[TAG]) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left_behind(environment[TAG]) == []
        return json.loads(out.read_text())

    return run


@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_a_search_whose_driver_is_killed_three_times_ends_like_an_undisturbed_one(study):
    tpe = ("search.sampler=tpe", "search.startup_trials=1", "search.trials=4", "search.concurrency=1")
    figures = study(3, *tpe, ASHA)
    assert (figures["kills"], figures["compared_by"]) == (3, "order")
    assert (figures["trials"], figures["differences"], figures["repeated_stages"]) == (4, [], 0)
    assert figures["mlflow_runs"] == {"FINISHED": 5}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("sampler", "concurrency", "scheduler", "compared_by"),
    [
        ("tpe", 1, "search.scheduler={kind: none}", "order"),
        ("multivariate-tpe", 1, ASHA, "order"),
        ("group-tpe", 1, ASHA, "order"),
        ("nsga2", 1, "search.scheduler={kind: median}", "order"),
        ("gp", 1, "search.scheduler={kind: none}", "order"),
        ("random", 2, "search.scheduler={kind: none}", "set"),
        ("grid", 2, "search.scheduler={kind: none}", "set"),
        ("tpe", 2, ASHA, "recomputed"),
    ],
)
def test_twenty_kills_change_nothing(study, sampler, concurrency, scheduler, compared_by):
    grid = ["method.drawing.neurons={choice: [0.1, 0.2, 0.3, 0.4]}"] if sampler == "grid" else []
    search = (f"search.sampler={sampler}", f"search.concurrency={concurrency}", "search.trials=12", scheduler)
    figures = study(20, *search, *grid)
    assert (figures["compared_by"], figures["trials"], figures["differences"]) == (compared_by, 12, [])
    assert (figures["kills"], figures["repeated_stages"]) == (20, 0)
    assert figures["mlflow_runs"] == {"FINISHED": 13}
