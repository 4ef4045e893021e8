"""A method with a stage of its own, in one file outside the package, goes through everything a search does."""

import pytest

from tests.extension.chain import SMALL
from tests.integration.test_search import summary_of

NO_FLOOR = "objective.floor_points=null"
pytestmark = pytest.mark.integration
KIND = "tests.extension.toy_method:ToyMethod"


def method(kind: str) -> str:
    return f"method={{kind: '{kind}', share: {{choice: [0.25, 0.5]}}, sides: {{choice: [6, 20, 100]}}}}"


def test_a_method_outside_the_package_is_searched_killed_resumed_and_reported(chain):
    planned = chain.looks(method(KIND), NO_FLOOR)
    [line] = [line for line in planned.splitlines() if line.startswith("│ toy_roll")]
    assert [cell.strip() for cell in line.split("│")][1:6] == ["toy_roll", "2", "0", "<= 2", "a die of 6 sides"]
    chain.killed(method(KIND), NO_FLOOR)
    summary, printed = chain.resumed()

    assert {trial.title for trial in summary.trials} == {"toy dice"}
    assert all([stage.name for stage in trial.stages][:2] == ["toy_roll", "draw"] for trial in summary.trials)
    assert summary.stages["toy_roll"].asked == 2
    assert "toy dice" in printed, "the closing table says whose tickets they are"
    assert "toy dice" in chain.page()
    runs = chain.tracked()
    for trial, run in zip(summary.trials, runs, strict=True):
        assert run.data.params["method.kind"] == KIND
        assert float(run.data.params["method.share"]) == trial.params["method.share"]
        assert int(run.data.params["method.sides"]) == trial.params["method.sides"]


def test_an_entry_point_offers_the_method_under_a_short_name(chain, extension_folder):
    installed = extension_folder / "toy-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text(f"[tune_tickets.methods]\ntoy = {KIND}\n", encoding="utf-8")
    # In a process of its own, which reads PYTHONPATH when it starts.
    process = chain.start(
        "run", chain.yaml, *SMALL, method("toy"), NO_FLOOR, "search.trials=1", "retraining.epochs=1",
        "--output", chain.out,
    )  # fmt: skip
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    assert "toy dice" in printed
    [trial] = summary_of(chain.out).trials
    assert (trial.status, trial.stages[0].name) == ("complete", "toy_roll")
    assert "kind: toy\n" in (chain.out / "config.yaml").read_text(encoding="utf-8")
