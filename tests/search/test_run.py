"""A search that cannot start leaves nothing behind that would disturb the next attempt."""

from contextlib import contextmanager

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import ResourceError, TicketsError
from tune_tickets.results.folder import Results
from tune_tickets.search import run


@contextmanager
def no_room(resources, store_url):
    raise ResourceError("resources.cpus asks for 64 per stage, this machine has 2")
    yield


@contextmanager
def room(resources, store_url):
    yield None


@pytest.fixture
def results(tmp_path) -> Results:
    return Results(tmp_path / "out", str(tmp_path / "store"))


def test_a_search_without_room_leaves_no_experiment_behind(tiny_yaml, results, monkeypatch):
    monkeypatch.setattr(run, "ray_session", no_room)
    experiment = load_experiment(tiny_yaml)
    with pytest.raises(ResourceError, match="asks for 64"):
        run.run_experiment(experiment, results, lambda event: None)
    assert [path.name for path in results.folder.iterdir()] == [".lock"]
    results.check(experiment, resume=False)  # it can begin where it was to


def test_a_search_whose_storage_is_damaged_opens_no_run_in_mlflow(tiny_yaml, results, monkeypatch):
    monkeypatch.setattr(run, "ray_session", room)
    monkeypatch.setattr(run, "open_tracker", lambda *arguments: pytest.fail("a run would stay open"))
    experiment = load_experiment(tiny_yaml)
    results.open(experiment)
    results.optuna.write_bytes(b"no database" * 100)
    with pytest.raises(TicketsError, match="is damaged"):
        run.run_experiment(experiment, results, lambda event: None, resume=True)
