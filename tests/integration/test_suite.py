"""A search with `evaluation.suite`, early exit, all controls and `confirm`, on the tiny model."""

import json

import pytest

from tests.integration.test_search import runs_of, summary_of
from tune_tickets.results.records import Confirmation

pytestmark = pytest.mark.integration
FIRST, SECOND = "charmer-fast/k1", "textbugger/minilm"
SETTINGS = (
    "search.trials=2", "search.concurrency=1", "search.warm_starts=[]", "seed=3", "retraining.epochs=4",
    f"evaluation={{suite: true, early_exit: true, attacks: [{FIRST}, {SECOND}], rows: 12, shard: 6}}",
    "method={kind: random, drawing: {heads: {choice: [1/4, 3/8]}}}",
    "controls={dense: true, random: true, epochs: true}", "objective={floor_points: 100.0, near_constant: 1.0}",
)  # fmt: skip


def test_a_search_by_a_suite_from_plan_to_confirm(cli, tiny_yaml, tmp_path, environment):
    out = tmp_path / "out"
    code, printed = cli("plan", tiny_yaml, *SETTINGS)
    assert code == 0, printed
    code, printed = cli("run", tiny_yaml, "--output", out, *SETTINGS)
    assert code == 0, printed
    assert f"after {SECOND}" in printed
    assert "suite" in printed
    found = summary_of(out)
    [winner] = [trial for trial in found.trials if trial.id == found.selected.trial]
    controls = {control.kind: control.outcome for control in found.controls}
    assert set(controls) == {"dense", "random"}
    for outcome in (winner.outcome, *controls.values()):
        assert outcome.suite.threats == (FIRST, SECOND)
        assert outcome.suite.survived == outcome.attacks[-1].survived
        assert outcome.suite.rows == len(outcome.suite.survived) == 12
        assert outcome.aua == outcome.suite.accuracy == outcome.metrics()["aua"]
    assert winner.metrics["aua"] == winner.outcome.suite.accuracy
    assert winner.values == pytest.approx(((winner.metrics["clean"] + winner.metrics["aua"]) / 200,))
    assert {(one.other, one.threat) for one in found.selected.comparisons} >= {
        ("dense", "suite"),
        ("random-0", "suite"),
    }
    assert {one.threat for one in found.selected.comparisons} == {"suite"}
    for record in found.epochs:
        assert [each.epoch for each in record.epochs] == [1, 2, 3, 4]
        assert all(each.metrics()["aua"] == each.suite.accuracy for each in record.epochs)
    assert len(found.epochs) == 2

    logged = [run.data.metrics for run in runs_of(out) if "aua" in run.data.metrics]
    assert any(f"aua_after/{FIRST}" in metrics for metrics in logged)
    assert not any(f"aua/{FIRST}" in metrics for metrics in logged)

    code, printed = cli("confirm", out, "--top", 1, "--seeds", 2)
    assert code == 0, printed
    confirmed = Confirmation.model_validate(json.loads((out / "confirm.json").read_text()))
    assert all("aua" in model.estimates for model in confirmed.models)
    assert {test.metric for test in confirmed.tests} >= {"clean", "aua"}
    code, printed = cli("report", out)
    assert code == 0, printed
    assert "under the suite of attacks" in (out / "report.html").read_text(encoding="utf-8")
