"""Records of a small search, and an MLflow store in a temporary folder."""

import math
import shutil
from pathlib import Path

import pytest

from tune_tickets.results.records import (
    AttackFigures,
    CleanFigures,
    ControlRecord,
    Outcome,
    Selection,
    Sparsity,
    Summary,
    ThreatRecord,
    TrialRecord,
)

SETTINGS = {
    "name": "demo",
    "seed": 0,
    "model": {"source": "bundled", "layers": 2},
    "task": {"source": "bundled/rotten-tomatoes"},
    "method": {"kind": "earlyrobust", "gamma": {"uniform": [0.05, 0.2]}},
}


def make_outcome(clean=84.0, aua=23.0, flags=()):
    attack = AttackFigures(
        threat="textfooler/minilm",
        fingerprint="f00d",
        rows=4,
        clean=100.0,
        accuracy_under_attack=aua,
        interval=(10.0, 40.0),
        success_rate=75.0,
        queries=55.5,
        words_changed=12.0,
        similarity=None,
        skipped=0,
        survived=(True, False, False, False),
    )
    return Outcome(
        clean=CleanFigures(rows=100, accuracy=clean, interval=(75.0, 90.0), majority_share=55.0),
        attacks=(attack,),
        sparsity=Sparsity(
            heads=16.7, neurons=30.0, parameters=8_000_000, parameters_total=20_000_000, parameters_dense=10_000_000
        ),
        flags=flags,
        retrain_digest="abc",
    )


def make_trial(number=0, status="complete", **changes):
    fields = {
        "id": f"t{number}",
        "number": number,
        "status": status,
        "params": {"method.gamma": 0.1 + number / 100},
        "outcome": make_outcome() if status == "complete" else None,
        "values": (53.5,) if status == "complete" else None,
        "feasible": True if status == "complete" else None,
        "seconds": 12.5,
    }
    return TrialRecord(**(fields | changes))


def make_summary(trials, selected="t0", front=("t0",), controls=(), status="finished", epochs=()):
    return Summary(
        experiment="demo",
        config_digest="digest",
        seed=0,
        status=status,
        trials=tuple(trials),
        controls=tuple(controls),
        epochs=tuple(epochs),
        selected=Selection(trial=selected, ticket="ticket", reason="Trial 0 has the best objective."),
        front=tuple(front),
        threat_models=(ThreatRecord(name="textfooler/minilm", fingerprint="f00d", resources={"neighbours": "minilm"}),),
        stages={},
        versions={"torch": "2.13.0"},
        total_seconds=100.0,
    )


def make_control(kind="dense", seed=0):
    return ControlRecord(kind=kind, seed=seed, outcome=make_outcome(86.0, 20.0), stages=())


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """An MLflow database without runs; making one takes seconds, so it is copied."""
    from tune_tickets.tracking.runs import RunBook

    folder = tmp_path_factory.mktemp("store")
    RunBook(f"sqlite:///{folder}/mlflow.db", folder / "mlartifacts", "unused")
    return folder / "mlflow.db"


@pytest.fixture
def results(tmp_path, empty_store) -> Path:
    """A results folder; its name has what users put into names, and what URIs read as something else."""
    folder = tmp_path / "meine ergebnisse ü #1?"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder


@pytest.fixture
def open_again(results):
    """Opens a new tracker on the same store, as a driver does after a crash."""
    from tune_tickets.tracking.place import artifact_folder, database_uri
    from tune_tickets.tracking.tracker import Tracker

    return lambda digest="digest", settings=SETTINGS, search="": Tracker(
        database_uri(results), artifact_folder(results), "demo", settings, digest, search
    )


@pytest.fixture
def client(results):
    from mlflow import MlflowClient

    from tune_tickets.tracking.place import database_uri

    return MlflowClient(tracking_uri=database_uri(results))


@pytest.fixture
def runs(client):
    """All active runs of the experiment, by name."""

    def look():
        experiment = client.get_experiment_by_name("demo")
        found = client.search_runs([experiment.experiment_id])
        by_name = {run.info.run_name: run for run in found}
        assert len(by_name) == len(found), "two runs share a name"
        return by_name

    return look


def points(client, run, key):
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, key)]


def play(tracker):
    tracker.start_trial("t0", 0, {"method.gamma": 0.1})
    tracker.log("t0", {"probe": 40.0, "loss": 0.7}, 1)
    tracker.log("t0", {"probe": 45.0, "loss": math.nan}, 2)
    tracker.finish_trial(make_trial(0), {})
    tracker.log_control(make_control(), {})
