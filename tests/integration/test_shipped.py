"""The shipped YAMLs, made small, run with the command of their headers: bundled encoder, real rows, every method."""

import json
import subprocess
import sys

import pytest

from tests.integration.conftest import ROOT
from tests.integration.test_search import runs_of
from tune_tickets.config import load_experiment
from tune_tickets.engine.store import Store
from tune_tickets.search.plan import plan
from tune_tickets.search.preflight import look, world_of

pytestmark = pytest.mark.integration
SMALL = [
    "model.layers=1",
    "task.max_length=16",
    "task.rows={train: 48, select: 24, report: 8}",
    "retraining.epochs=1",
    "evaluation.rows=3",
    "evaluation.attacks=[textbugger/minilm]",
    "evaluation.probe.rows=8",
    "objective.floor_points=null",
]


@pytest.fixture
def tune(environment, tmp_path):
    """Run scripts/tune.py on a shipped file, made small; its summary."""

    def run(name, *more):
        script, file, out = ROOT / "scripts/tune.py", ROOT / "search_spaces" / name, tmp_path / "out"
        command = [sys.executable, script, file, *SMALL, *more, "--output", out]
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        check_plan(file, [*SMALL, *more], summary, tmp_path / "empty")
        return summary

    return run


def check_plan(file, overrides, summary, folder):
    """The run has requested the stages that were planned, as often: `plan` walks the flow of the run."""
    # Whether there are random tickets depends on the winner: the whole model has none like it.
    without = ["controls.random=false"] if not any(each["kind"] == "random" for each in summary["controls"]) else []
    experiment = load_experiment(file, [*overrides, *without])
    store = Store(str(folder))
    seen = look(experiment)
    planned = {
        each.name: each.asked for each in plan(experiment, world_of(experiment, seen), store, len(seen.data.train))
    }
    requested = {name: use["asked"] for name, use in summary["stages"].items()}
    assert requested.keys() == planned.keys()
    # A trial that is not fixed by a warm start is planned as the most expensive one it can become.
    fixed = len(experiment.settings.search.warm_starts) >= experiment.settings.search.trials
    different = {name: (planned[name], requested[name]) for name in planned if planned[name] != requested[name]}
    assert all(most >= number for most, number in different.values()), different
    assert not (fixed and different), different


def test_every_method_and_baseline_of_the_comparison(tune):
    summary = tune("compare.yaml", "method.finetuning.epochs={choice: [1], when: {method.kind: robustt}}")
    titles = [trial["title"] for trial in summary["trials"]]
    assert titles == [
        "finetune",
        "PGD",
        "FreeLB",
        "InfoBERT + FreeLB",
        "random",
        "EarlyBERT",
        "earlyrobust",
        "earlyrobust + FreeLB",
        "robustt",
        "imp",
    ]
    assert {trial["status"] for trial in summary["trials"]} == {"complete"}
    names = [{name for name in trial["metrics"] if not name.startswith("rejected/")} for trial in summary["trials"]]
    wanted = {"clean", "aua", "suc/textbugger/minilm", "queries/textbugger/minilm", "parameters", "sparsity/weights"}
    assert all(wanted <= each for each in names)


def test_one_search_on_masked_text_for_two_tasks(tune):
    summary = tune(
        "orticket.yaml",
        "method.rows=24",
        "method.block=16",
        "method.head={held_out: 8, blocks: true, max_length: 16}",
        "transfer.imdb={task: {source: bundled/imdb, max_length: 16, rows: {train: 32, select: 16, report: 8}}, "
        "drawing: {heads: 1/6, neurons: 0.2}, attacked_rows: 2}",
        "search.trials=2",
    )
    assert [trial["status"] for trial in summary["trials"]] == ["complete"] * 2
    searched = {
        stage["digest"] for trial in summary["trials"] for stage in trial["stages"] if stage["name"] == "mlm_search"
    }
    assert len(searched) == 1, "other ratios read the same search on"
    assert all({"mean/clean", "transfer/imdb/aua"} <= set(trial["metrics"]) for trial in summary["trials"])


def test_mask_training_under_four_losses_on_a_planted_bias(tune, tmp_path):
    summary = tune(
        "srnets.yaml",
        "task.planted.rows={select: 16, report: 8}",
        "method.epochs=1",
        "method.eval_interval=2",
        "method.finetuning.epochs=1",
        "method.debiasing.teacher.epochs=1",
        "search.trials=4",
    )
    assert [trial["status"] for trial in summary["trials"]] == ["complete"] * 4
    assert summary["stages"]["srnets_masks"]["computed"] == 4
    assert (summary["stages"]["bias"]["computed"], summary["stages"]["teacher"]["computed"]) == (1, 1)
    assert all("ood/reversed" in trial["metrics"] for trial in summary["trials"])
    # 3 steps, looks after the second and the third.
    assert summary["stages"]["ood_curve"]["computed"] == 4
    from mlflow import MlflowClient

    runs = [run for run in runs_of(tmp_path / "out") if run.info.run_name.startswith("trial")]
    for run in runs:
        points = MlflowClient(f"sqlite:///{tmp_path}/out/mlflow.db").get_metric_history(
            run.info.run_id, "ood_curve/ood/reversed"
        )
        assert [point.step for point in points] == [1, 2]
    picture = (tmp_path / "out" / "pictures" / "mask-start.svg").read_text(encoding="utf-8")
    assert "out of distribution: reversed" in picture
