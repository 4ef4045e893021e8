"""A search tracked by an MLflow server on PostgreSQL: runs, files, and the winner in the registry."""

import json
import subprocess
import sys

import pytest

from tests.integration import postgres
from tests.integration.conftest import ROOT, TAG, left_behind
from tests.tracking.test_registry import LOAD
from tune_tickets import load_ticket

MISSING = postgres.why_not()
pytestmark = [pytest.mark.integration, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]


def test_a_search_is_kept_by_a_server_on_postgresql(cli, tiny_yaml, tmp_path, environment):
    from mlflow import MlflowClient

    out = tmp_path / "out"
    with postgres.postgres() as database, postgres.tracking_server(database, tmp_path, environment) as address:
        settings = (f"tracking.uri={address}", "search.trials=1", "controls.dense=false", "objective.floor_points=null")
        code, printed = cli("run", tiny_yaml, "--output", out, *settings)
        assert code == 0, printed
        assert "missing in MLflow" not in printed
        client = MlflowClient(address, address)
        experiment = client.get_experiment_by_name("tiny")
        runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
        assert set(runs) == {"tiny", "trial 0"}
        assert {run.info.status for run in runs.values()} == {"FINISHED"}
        assert {one.tags[0].value for one in runs["trial 0"].inputs.dataset_inputs} == {"train", "select"}
        assert "summary.json" in [file.path for file in client.list_artifacts(runs["tiny"].info.run_id)]
        assert not (out / "mlflow.db").exists()
        assert rows_of(database, "runs") == 2
        assert rows_of(database, "model_versions") == 1

        command = [sys.executable, "-c", LOAD, address, "models:/tiny@best", json.dumps({"text": ["a good film"]})]
        safe = {"MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false", "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, env=environment | safe, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        _, [[label, share]], _ = json.loads(ended.stdout.splitlines()[-1])
        assert [(label, pytest.approx(share))] == load_ticket(out).predict(["a good film"])
    assert left_behind(environment[TAG]) == []


def rows_of(database, table):
    import psycopg2

    connection = psycopg2.connect(database.replace("+psycopg2", ""))
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"select count(*) from {table}")
            return cursor.fetchone()[0]
    finally:
        connection.close()
