"""A results folder that was moved or copied keeps its artifacts in MLflow."""

import shutil
import sqlite3

import pytest

from tests.tracking.conftest import make_summary, make_trial
from tune_tickets.errors import TicketsError
from tune_tickets.tracking.place import database_uri, follow_move


@pytest.fixture
def moved(open_again, results, tmp_path):
    """A search with an artifact, moved to a folder with a blank and a percent sign in its name."""
    tracker = open_again()
    (tmp_path / "note.txt").write_text("here")
    tracker.finish_trial(make_trial(0), {"files/note.txt": tmp_path / "note.txt"})
    tracker.finish(make_summary([make_trial(0)]), {})
    return results.rename(tmp_path / "new 5% place")


def artifacts(folder):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=database_uri(folder))
    [experiment] = [one for one in client.search_experiments() if one.name == "demo"]
    runs = client.search_runs([experiment.experiment_id])
    [trial] = [run.info.run_id for run in runs if run.info.run_name == "trial 0"]
    return experiment.artifact_location, [file.path for file in client.list_artifacts(trial, "files")]


@pytest.mark.integration
def test_artifacts_are_found_again_and_later_ones_go_beside_them(moved):
    assert artifacts(moved)[1] == []
    assert follow_move(moved)
    assert artifacts(moved) == ((moved / "mlartifacts").as_uri(), ["files/note.txt"])
    assert not follow_move(moved)


@pytest.mark.integration
def test_a_copy_stands_on_its_own(moved, tmp_path):
    follow_move(moved)
    copy = shutil.copytree(moved, tmp_path / "copy")
    assert follow_move(copy)
    assert artifacts(copy)[0] == (copy / "mlartifacts").as_uri()
    assert artifacts(moved)[0] == (moved / "mlartifacts").as_uri()


@pytest.mark.integration
def test_artifacts_that_are_not_here_are_left_where_they_are(moved, results):
    (moved / "mlartifacts").rename(moved / "elsewhere")
    assert not follow_move(moved)
    assert artifacts(moved)[0] == (results / "mlartifacts").as_uri()


def test_a_database_that_cannot_be_mended_says_what_to_do(tmp_path):
    assert not follow_move(tmp_path)
    (tmp_path / "mlflow.db").write_text("no database " * 1000)
    with pytest.raises(TicketsError, match=r"cannot be updated .*Make the folder writable, or move it back"):
        follow_move(tmp_path)


def test_a_table_that_another_release_does_not_have_is_passed_over(tmp_path):
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        connection.execute("CREATE TABLE runs (artifact_uri TEXT)")
    assert not follow_move(tmp_path)
