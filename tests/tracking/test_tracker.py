import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracking.conftest import SETTINGS, make_control, make_outcome, make_summary, make_trial, play, points
from tune_tickets.errors import TicketsError
from tune_tickets.results.records import Cost, EpochFigures, EpochsRecord, Training

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.integration


def test_trials_and_controls_are_nested_below_one_parent(open_again, runs):
    play(open_again())
    found = runs()
    assert set(found) == {"demo", "trial 0", "dense"}
    parent = found["demo"].info.run_id
    assert found["trial 0"].data.tags["mlflow.parentRunId"] == parent
    assert found["dense"].data.tags["mlflow.parentRunId"] == parent
    assert "mlflow.parentRunId" not in found["demo"].data.tags


def test_a_finished_trial_shows_its_figures_under_the_names_of_the_records(open_again, runs):
    play(open_again())
    run = runs()["trial 0"]
    assert run.info.status == "FINISHED"
    for name, value in make_outcome().metrics().items():
        assert run.data.metrics[name] == value
    assert run.data.metrics["aua/textfooler/minilm"] == 23.0
    assert run.data.metrics["objective"] == 53.5
    assert run.data.params == {"method.kind": "earlyrobust", "method.gamma": "0.1"}


def test_attacks_after_every_epoch_are_curves_of_the_models_run(open_again, runs, client):
    outcome = make_outcome()
    epochs = [EpochFigures(epoch=epoch, clean=outcome.clean, attacks=outcome.attacks) for epoch in (1, 2)]
    records = [EpochsRecord(model=model, epochs=epochs) for model in ("t0", "dense")]
    for _ in range(2):
        tracker = open_again()
        tracker.finish(make_summary([make_trial(0)], controls=[make_control()], epochs=records), {})
        assert tracker.problems == ()
    for name in ("trial 0", "dense"):
        assert points(client, runs()[name], "epoch/aua/textfooler/minilm") == [(1, 23.0), (2, 23.0)]
        assert points(client, runs()[name], "epoch/clean") == [(1, 84.0), (2, 84.0)]
        assert [step for step, _ in points(client, runs()[name], "clean")] == [0], "that of the tables stays alone"


def test_runs_carry_the_title_that_tables_use(open_again, runs):
    tracker = open_again()
    tracker.finish_trial(make_trial(0, title="robustt, shuffled + FreeLB"), {})
    tracker.log_control(make_control().model_copy(update={"title": "finetune"}), {})
    assert runs()["trial 0"].data.tags["title"] == "robustt, shuffled + FreeLB"
    assert runs()["dense"].data.tags["title"] == "finetune"


def test_tags_name_method_model_task_threat_and_versions(open_again, runs):
    play(open_again())
    tags = runs()["trial 0"].data.tags
    assert (tags["method"], tags["model"], tags["task"]) == ("earlyrobust", "bundled", "bundled/rotten-tomatoes")
    assert tags["threat.textfooler/minilm"] == "f00d"
    assert (tags["status"], tags["feasible"]) == ("complete", "true")
    assert tags["version.mlflow"].startswith("3.")
    assert runs()["dense"].data.tags["method"] == "finetune"


def test_tags_say_whether_ood_rows_were_seen_and_what_is_doubtful(open_again, runs):
    tracker = open_again()
    play(tracker)
    assert runs()["trial 0"].data.tags["uses_ood_information"] == "false"
    trial = make_trial(0)
    doubtful = trial.outcome.model_copy(update={"notes": ("gains on hans, but ...",)})
    tracker.finish_trial(trial.model_copy(update={"uses_ood_information": True, "outcome": doubtful}), {})
    tags = runs()["trial 0"].data.tags
    assert (tags["uses_ood_information"], tags["notes"]) == ("true", "gains on hans, but ...")
    summary = make_summary([trial]).model_copy(update={"uses_ood_information": True})
    tracker.finish(summary, {})
    assert runs()["demo"].data.tags["uses_ood_information"] == "true"


def test_nan_is_left_out(open_again, runs, client):
    play(open_again())
    assert points(client, runs()["trial 0"], "loss") == [(1, 0.7)]


def test_a_final_figure_stands_behind_the_curve_of_the_same_name(open_again, runs, client):
    tracker = open_again()
    tracker.start_trial("t0", 0, {})
    for step, clean in enumerate((70.0, 80.0, 90.0), start=1):
        tracker.log("t0", {"clean": clean}, step)
    tracker.finish_trial(make_trial(0), {})
    assert points(client, runs()["trial 0"], "clean") == [(1, 70.0), (2, 80.0), (3, 90.0), (4, 84.0)]
    assert runs()["trial 0"].data.metrics["clean"] == 84.0


@pytest.mark.parametrize(
    ("status", "expected"),
    [("complete", "FINISHED"), ("failed", "FAILED"), ("pruned", "FINISHED"), ("interrupted", "KILLED")],
)
def test_every_trial_status_has_its_run_status(open_again, runs, status, expected):
    open_again().finish_trial(make_trial(0, status), {})
    run = runs()["trial 0"]
    assert (run.info.status, run.data.tags["status"]) == (expected, status)


def test_an_error_is_kept_and_forgotten_when_the_trial_later_succeeds(open_again, runs):
    tracker = open_again()
    tracker.finish_trial(make_trial(0, "failed", error="x" * 9000 + "CUDA out of memory"), {})
    assert runs()["trial 0"].data.tags["error"].endswith("CUDA out of memory")
    tracker.start_trial("t0", 0, {})
    assert runs()["trial 0"].info.status == "RUNNING"
    tracker.finish_trial(make_trial(0), {})
    assert runs()["trial 0"].data.tags["error"] == ""


def test_the_end_marks_winner_and_front_and_unmarks_earlier_ones(open_again, runs):
    trials = [make_trial(0), make_trial(1)]
    tracker = open_again()
    tracker.finish(make_summary(trials, "t0", ("t0", "t1")), {})
    tracker.finish(make_summary(trials, "t1", ("t1",)), {})
    found = runs()
    assert (found["trial 0"].data.tags["selected"], found["trial 0"].data.tags["pareto"]) == ("false", "false")
    assert (found["trial 1"].data.tags["selected"], found["trial 1"].data.tags["pareto"]) == ("true", "true")
    assert found["demo"].data.tags["selected"] == "t1"
    assert found["demo"].data.metrics["clean"] == 84.0
    assert found["demo"].data.tags["threat.textfooler/minilm.resources"] == '{"neighbours": "minilm"}'


def test_artifacts_stand_under_their_names_with_their_bytes(open_again, runs, client, tmp_path, results):
    blob = tmp_path / "blob-1234"
    blob.write_bytes(b"weights")
    folder = tmp_path / "attacks"
    folder.mkdir()
    (folder / "textfooler.parquet").write_bytes(b"rows")
    tracker = open_again()
    for _ in range(2):
        tracker.finish_trial(make_trial(0), {"ticket/ticket.safetensors": blob, "attacks": folder})
    tracker.finish(make_summary([make_trial(0)]), {"report.txt": blob})
    assert tracker.problems == ()
    found = runs()
    trial, parent = found["trial 0"].info.run_id, found["demo"].info.run_id
    assert [item.path for item in client.list_artifacts(trial, "ticket")] == ["ticket/ticket.safetensors"]
    assert [item.path for item in client.list_artifacts(trial, "attacks")] == ["attacks/textfooler.parquet"]
    assert {item.path for item in client.list_artifacts(parent)} == {"report.txt", "settings.yaml", "summary.json"}
    stored = list((results / "mlartifacts").rglob("ticket.safetensors"))
    assert len(stored) == 1
    assert stored[0].read_bytes() == b"weights"
    assert not stored[0].is_symlink()


def test_a_missing_artifact_is_named_and_the_run_still_ends_rightly(open_again, runs, tmp_path):
    tracker = open_again()
    tracker.finish_trial(make_trial(0), {"ticket.safetensors": tmp_path / "gone"})
    tracker.finish(make_summary([make_trial(0)]), {})
    assert len(tracker.problems) == 1
    assert "trial 0" in tracker.problems[0]
    assert "gone" in tracker.problems[0]
    assert runs()["trial 0"].info.status == "FINISHED"
    assert runs()["demo"].info.status == "FINISHED"


def test_another_config_gets_its_own_parent(open_again, client):
    open_again("digest").start_trial("t0", 0, {})
    open_again("other").start_trial("t0", 0, {})
    experiment = client.get_experiment_by_name("demo")
    assert len(client.search_runs([experiment.experiment_id])) == 4


def test_two_searches_of_one_configuration_on_one_server_have_runs_of_their_own(open_again, client):
    play(open_again(search="one"))
    play(open_again(search="two"))
    play(open_again(search="two"))
    [experiment] = [each for each in client.search_experiments() if each.name == "demo"]
    names = [run.info.run_name for run in client.search_runs([experiment.experiment_id])]
    assert sorted(names) == ["demo", "demo", "dense", "dense", "trial 0", "trial 0"]


def test_many_and_long_params_and_odd_names_are_taken(open_again, runs):
    settings = SETTINGS | {"wide": {f"key{n}": n for n in range(250)}, "long": "x" * 9000, "odd": {"a@b": 1}}
    tracker = open_again("digest", settings)
    tracker.start_trial("t0", 0, {"odd@name": "y" * 9000})
    tracker.log("t0", {f"metric@{n}": float(n) for n in range(1500)}, 1)
    assert tracker.problems == ()
    found = runs()
    assert found["demo"].data.params["wide.key249"] == "249"
    assert len(found["demo"].data.params["long"]) == 500
    assert found["demo"].data.params["odd.a_b"] == "1"
    assert found["trial 0"].data.metrics["metric_1499"] == 1499.0


def test_the_run_list_opens_with_the_searched_params(open_again, client):
    tracker = open_again()
    tracker.start_trial("t0", 0, {"method.gamma": 0.1})
    tracker.start_trial("t1", 1, {"method.gamma": 0.1, "retraining.epochs": 3})
    tags = client.get_experiment_by_name("demo").tags
    columns = json.loads(tags["mlflow.sharedViewState.tickets"])["selectedColumns"]
    assert columns[:5] == [
        "metrics.`objective`",
        "metrics.`clean`",
        "metrics.`aua`",
        "params.`method.gamma`",
        "params.`retraining.epochs`",
    ]


def test_the_chart_view_opens_with_parallel_coordinates_over_the_searched_params(open_again, client):
    open_again().start_trial("t0", 0, {"method.gamma": 0.1, "method.drawing.heads": "1/6"})
    view = json.loads(client.get_experiment_by_name("demo").tags["mlflow.sharedViewState.tickets"])
    parallel, scatter = view["compareRunCharts"]
    assert (parallel["type"], parallel["selectedParams"]) == ("PARALLEL", ["method.drawing.heads", "method.gamma"])
    assert parallel["selectedMetrics"] == ["clean", "aua", "objective"]
    assert (scatter["xaxis"]["key"], scatter["yaxis"]["key"]) == ("clean", "aua")
    (section,) = view["compareRunSections"]
    assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == {section["uuid"]}


def test_a_vector_objective_has_one_metric_per_figure(open_again, runs):
    open_again().finish_trial(make_trial(0, values=(84.0, 23.0)), {})
    metrics = runs()["trial 0"].data.metrics
    assert (metrics["objective/0"], metrics["objective/1"]) == (84.0, 23.0)


def test_the_run_list_of_a_pareto_search_is_sorted_by_accuracy_under_attack(open_again, client):
    open_again(settings=SETTINGS | {"objective": {"kind": "pareto", "metrics": ["clean", "aua"]}}).start_trial(
        "t0", 0, {"method.gamma": 0.1}
    )
    view = json.loads(client.get_experiment_by_name("demo").tags["mlflow.sharedViewState.tickets"])
    figures = ["metrics.`objective/0`", "metrics.`objective/1`", "metrics.`clean`", "metrics.`aua`"]
    assert view["selectedColumns"][:5] == [*figures, "params.`method.gamma`"]
    assert (view["orderByKey"], view["orderByAsc"]) == (figures[1], False)


def test_training_cost_is_logged_with_and_without_the_search(open_again, runs):
    cost = Cost(retraining=Training(passes=3.0, seconds=20.0), search=Training(passes=1.5, seconds=12.0))
    open_again().finish_trial(make_trial(0, cost=cost), {})
    metrics = runs()["trial 0"].data.metrics
    assert (metrics["cost/passes"], metrics["cost/passes_with_search"]) == (3.0, 4.5)
    assert (metrics["cost/seconds"], metrics["cost/seconds_with_search"]) == (20.0, 32.0)


def test_a_deleted_experiment_is_an_error_that_says_what_to_do(open_again, client):
    open_again()
    client.delete_experiment(client.get_experiment_by_name("demo").experiment_id)
    with pytest.raises(TicketsError, match=r"restore it .* or choose another name in tracking\.experiment"):
        open_again()


def test_a_store_that_cannot_be_used_is_an_error_without_the_password(tmp_path):
    from tune_tickets.tracking.tracker import Tracker

    with pytest.raises(TicketsError, match=r"tracking\.uri") as caught:
        Tracker("nosuchdb://user:secret@host/db", tmp_path / "a", "demo", {}, "digest")
    assert "secret" not in str(caught.value)


def test_a_password_in_the_settings_does_not_reach_the_store(open_again, runs, results):
    settings = SETTINGS | {"tracking": {"uri": "postgresql://user:secret@host/db"}}
    open_again("digest", settings)
    assert runs()["demo"].data.params["tracking.uri"] == "postgresql://user:***@host/db"
    assert "secret" not in next(results.rglob("settings.yaml")).read_text()


def test_migrations_are_silent(tmp_path, capfd):
    from tune_tickets.tracking.runs import RunBook

    RunBook(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "a", "demo")
    assert capfd.readouterr() == ("", "")


def test_telemetry_is_off_outside_of_tests_too():
    # mlflow switches it off by itself under pytest and in CI, so a clean environment is needed to see ours at work.
    script = "import tune_tickets.tracking.runs; from mlflow.telemetry import client, utils; "
    script += "print(utils.is_telemetry_disabled(), utils._IS_IN_CI_ENV_OR_TESTING, client.get_telemetry_client())"
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "None"]
