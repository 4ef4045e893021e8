"""A confirmation in MLflow: one run per model and seed, logged once, in the experiment of the search."""

import pytest

from tests.tracking.conftest import make_summary, make_trial
from tune_tickets.results.records import Confirmation, ConfirmedModel, SeedRun

pytestmark = pytest.mark.integration


def confirmation() -> Confirmation:
    done = SeedRun(model="dense", seed=1, status="complete", metrics={"clean": 80.0, "aua/textfooler": 20.0})
    failed = SeedRun(model="dense", seed=2, status="failed", error="out of memory")
    model = ConfirmedModel(
        name="dense", kind="dense", trial=None, title="finetune", params={}, failed=1, estimates={}, runs=(done, failed)
    )
    return Confirmation(
        experiment="demo", config_digest="digest", report_fingerprint="f", rows=10, attacked_rows=5, seeds=(1, 2),
        tickets=(), models=(model,), tests=(), total_seconds=1.0,
    )  # fmt: skip


def test_seeds_are_runs_of_their_own_and_the_search_stays_as_it_ended(open_again, runs, tmp_path):
    open_again().finish(make_summary([make_trial()]), {})
    before = set(runs())
    (tmp_path / "confirm.json").write_text("{}", encoding="utf-8")
    for _ in range(2):  # a confirmation that is called again
        tracker = open_again()
        tracker.log_confirmation(confirmation(), "finished", {"confirm.json": tmp_path / "confirm.json"})
        assert tracker.problems == ()
    found = runs()
    assert set(found) - before == {"dense, seed 1", "dense, seed 2"}
    done, failed = found["dense, seed 1"], found["dense, seed 2"]
    assert done.data.metrics == {"report/clean": 80.0, "report/aua/textfooler": 20.0}
    assert done.data.tags["method"] == "finetune"
    assert (done.info.status, failed.info.status) == ("FINISHED", "FAILED")
    assert failed.data.tags["error"] == "out of memory"
    [parent] = [run for run in found.values() if "mlflow.parentRunId" not in run.data.tags]
    assert parent.info.status == "FINISHED"
