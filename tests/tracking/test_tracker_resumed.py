"""A tracker that is opened again after a crash or an outage, or twice: nothing is lost and nothing is doubled."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracking.conftest import SETTINGS, make_control, make_summary, make_trial, play, points

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.integration


def test_random_controls_like_several_trials_have_runs_of_their_own_also_after_a_crash(open_again, runs):
    controls = [
        make_control().model_copy(update={"kind": "random", "like": like, "seed": seed})
        for like in (None, "t1")
        for seed in (0, 1)
    ]
    for _ in range(2):
        tracker = open_again()
        for control in controls:
            tracker.log_control(control, {})
    found = runs()
    assert set(found) == {"demo", "random-0", "random-1", "random-t1-0", "random-t1-1"}
    assert [found[name].data.tags.get("like") for name in ("random-0", "random-t1-1")] == [None, "t1"]


def test_calling_everything_twice_adds_no_run_and_no_point(open_again, runs, client):
    tracker = open_again()
    play(tracker)
    play(tracker)
    found = runs()
    assert len(found) == 3
    assert points(client, found["trial 0"], "probe") == [(1, 40.0), (2, 45.0)]
    assert points(client, found["trial 0"], "clean") == [(0, 84.0)]


def test_a_new_tracker_after_a_crash_goes_on_with_the_runs_that_are_there(open_again, runs, client):
    first = open_again()
    first.start_trial("t0", 0, {"method.gamma": 0.1})
    first.log("t0", {"probe": 40.0}, 1)
    before = runs()
    assert before["trial 0"].info.status == "RUNNING"

    second = open_again()
    play(second)
    second.finish(make_summary([make_trial(0)], controls=[make_control()]), {})
    after = runs()
    assert after["demo"].info.run_id == before["demo"].info.run_id
    assert after["trial 0"].info.run_id == before["trial 0"].info.run_id
    assert points(client, after["trial 0"], "probe") == [(1, 40.0), (2, 45.0)]
    assert (after["demo"].info.status, after["trial 0"].info.status) == ("FINISHED", "FINISHED")


def test_a_driver_killed_in_mid_trial_is_continued(open_again, runs, client, results):
    done = subprocess.run([sys.executable, "-m", "tests.tracking.killed_driver", str(results)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    before = runs()
    assert {name: run.info.status for name, run in before.items()} == {"demo": "RUNNING", "trial 0": "RUNNING"}
    play(open_again())
    after = runs()
    assert {name: after[name].info.run_id for name in before} == {n: r.info.run_id for n, r in before.items()}
    assert points(client, after["trial 0"], "probe") == [(1, 40.0), (2, 45.0)]


def test_epoch_reports_go_on_after_a_crash_without_a_second_start(open_again, runs, client):
    first = open_again()
    first.start_trial("t0", 0, {})
    first.log("t0", {"probe": 40.0}, 1)
    second = open_again()
    second.log("t0", {"probe": 41.0}, 1)
    second.log("t0", {"probe": 45.0}, 2)
    assert second.problems == ()
    assert points(client, runs()["trial 0"], "probe") == [(1, 40.0), (2, 45.0)]


def test_replaying_a_finished_search_changes_nothing(open_again, runs, client):
    summary = make_summary([make_trial(0)], controls=[make_control()])
    first = open_again()
    play(first)
    first.finish(summary, {})
    before = runs()
    second = open_again()
    play(second)
    second.finish(summary, {})
    after = runs()
    assert {name: run.data.metrics for name, run in after.items()} == {n: r.data.metrics for n, r in before.items()}
    assert {name: run.data.tags for name, run in after.items()} == {n: r.data.tags for n, r in before.items()}
    assert after["trial 0"].info.end_time == before["trial 0"].info.end_time
    assert points(client, after["demo"], "aua") == [(0, 23.0)]


def test_a_trial_nobody_took_up_again_does_not_stay_running(open_again, runs):
    open_again().start_trial("lost", 7, {})
    open_again().finish(make_summary([make_trial(0)]), {})
    run = runs()["trial 7"]
    assert (run.info.status, run.data.tags["status"]) == ("KILLED", "interrupted")


def test_an_outage_in_mid_search_loses_nothing(open_again, runs, client, results):
    tracker = open_again()
    tracker.start_trial("t0", 0, {"method.gamma": 0.1})
    database = results / "mlflow.db"
    intact = database.read_bytes()
    database.write_bytes(b"this is no database, and long enough to be seen as one" * 100)
    tracker.log("t0", {"probe": 40.0}, 1)
    tracker.finish_trial(make_trial(0), {})
    assert len(tracker.problems) == 2
    database.write_bytes(intact)
    tracker.finish(make_summary([make_trial(0)]), {})
    assert tracker.problems == ()
    assert points(client, runs()["trial 0"], "probe") == [(1, 40.0)]
    assert runs()["trial 0"].data.metrics["clean"] == 84.0


def test_settings_that_changed_on_resume_do_not_break_the_parent(open_again, runs):
    open_again("digest", SETTINGS | {"search": {"concurrency": 2}})
    open_again("digest", SETTINGS | {"search": {"concurrency": 4}, "new": 1})
    assert runs()["demo"].data.params["new"] == "1"
