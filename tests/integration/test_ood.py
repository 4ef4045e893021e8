"""A search on a planted task: OOD metrics of all models in summary, table and MLflow."""

import json
from pathlib import Path

import pytest

from tests.integration.test_search import runs_of

pytestmark = pytest.mark.integration
PLANTED = "task.planted={markers: [x, z], strength: 1.0, ood_strength: 0.0, rows: {select: 16, report: 8}}"


def test_every_model_of_a_search_is_measured_on_the_twin(cli, tiny_yaml, tmp_path: Path):
    out = tmp_path / "out"
    overrides = [PLANTED, "search.trials=2", "controls.random=true", "objective.floor_points=null"]
    code, printed = cli("run", tiny_yaml, "--output", out, *overrides)
    assert code == 0, printed
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    models = [*summary["trials"], *summary["controls"]]
    assert [len(model["outcome"]["ood"]) for model in models] == [1] * 4
    assert {twin["sample"] for model in models for twin in model["outcome"]["ood"]} == {
        summary["trials"][0]["outcome"]["ood"][0]["sample"]
    }
    assert summary["stages"]["ood"]["asked"] == 4
    assert [comparison["other"] for comparison in summary["selected"]["ood"]][:2] == ["dense", "random-0"]
    assert [one["figure"] for one in summary["detectable"]] == ["clean", "ood/reversed"]
    assert not summary["uses_ood_information"]
    assert "ood reversed" in printed
    assert "Differences of accuracy that these rows can show, with 80% power at the 5% level: clean" in printed
    runs = {run.info.run_name: run for run in runs_of(out)}
    for name in ("trial 0", "dense", "random-0"):
        assert {"ood", "ood/reversed", "ood/reversed/misleading"} <= set(runs[name].data.metrics)
    assert runs["trial 0"].data.tags["uses_ood_information"] == "false"
