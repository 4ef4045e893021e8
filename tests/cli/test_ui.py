import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tune_tickets.cli.ui import SAFE, find_results, free_port, server_command, server_environment
from tune_tickets.errors import TicketsError


def database(folder, age=0.0):
    folder.mkdir(parents=True)
    path = folder / "mlflow.db"
    path.touch()
    stamp = time.time() - age
    os.utime(path, (stamp, stamp))
    return folder


def test_a_folder_with_a_database_is_taken_as_it_is(tmp_path):
    assert find_results(database(tmp_path / "a")) == tmp_path / "a"


def test_of_several_searches_the_newest_is_shown(tmp_path, monkeypatch):
    database(tmp_path / "results" / "z-old", age=1000)
    newest = database(tmp_path / "results" / "a-new")
    database(tmp_path / "results" / "m-middle", age=500)
    assert find_results(tmp_path / "results") == newest
    monkeypatch.chdir(tmp_path)
    assert find_results(None) == Path("results/a-new")


@pytest.mark.parametrize("exists", [True, False])
def test_missing_results_are_an_error_that_says_what_to_do(tmp_path, exists):
    folder = tmp_path / "results"
    if exists:
        folder.mkdir()
    with pytest.raises(TicketsError, match=r"no mlflow\.db in .*results .*: run a search first, or name the results"):
        find_results(folder)


def test_a_port_in_use_gives_the_next_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = free_port(port)
    assert port < found < port + 100


def test_the_server_listens_on_this_machine_only_and_takes_no_uploads(tmp_path):
    command = server_command(tmp_path / "a b", 5001)
    pairs = dict(itertools.pairwise(command))
    assert command[:4] == [sys.executable, "-m", "mlflow", "server"]
    assert pairs["--host"] == "127.0.0.1"
    assert pairs["--backend-store-uri"] == f"sqlite:///{tmp_path}/a b/mlflow.db"
    assert pairs["--default-artifact-root"] == f"file://{tmp_path}/a%20b/mlartifacts"
    assert "--no-serve-artifacts" in command


def test_settings_of_another_server_do_not_reach_ours(monkeypatch):
    monkeypatch.setenv("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "true")
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", "postgresql://elsewhere/db")
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "true")
    monkeypatch.setenv("HOME", "/home/me")
    found = server_environment()
    assert {name: value for name, value in found.items() if "MLFLOW" in name} == SAFE
    assert found["HOME"] == "/home/me"


@pytest.mark.integration
def test_the_safety_switches_are_ones_that_mlflow_knows():
    from mlflow import environment_variables

    for name in SAFE:
        assert getattr(environment_variables, name).name == name


def start(results, *, port):
    script = f"from pathlib import Path; from tune_tickets.cli.ui import ui; ui(Path({str(results)!r}), {port}, False)"
    # pytest may have been started with SIGINT ignored, which children inherit.
    return subprocess.Popen(
        [sys.executable, "-c", f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {script}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(child) for child in found] + [below for child in found for below in children(int(child))]


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_shows_the_search_and_ends_with_all_its_processes(tmp_path, number):
    from tests.tracking.conftest import SETTINGS, make_trial
    from tune_tickets.config.search import Tracking
    from tune_tickets.tracking.protocol import open_tracker

    tracker = open_tracker(Tracking(), tmp_path, "demo", SETTINGS, "digest")
    tracker.finish_trial(make_trial(0), {})
    process = start(tmp_path, port=free_port(5600))
    try:
        assert str(tmp_path) in process.stdout.readline()
        page = process.stdout.readline().strip()
        assert page.endswith("/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=tickets")
        address = page.split("/#")[0]
        body = json.dumps({"experiment_ids": ["1"]}).encode()
        request = urllib.request.Request(
            f"{address}/api/2.0/mlflow/runs/search", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            names = {run["info"]["run_name"] for run in json.load(answer)["runs"]}
        assert names == {"demo", "trial 0"}
        below = children(process.pid)
        assert len(below) >= 2
    finally:
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/health", timeout=2)


@pytest.mark.integration
def test_a_database_that_mlflow_cannot_open_is_reported_with_its_words(tmp_path):
    (tmp_path / "mlflow.db").write_text("no database " * 1000)
    process = start(tmp_path, port=free_port(5700))
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "TicketsError: The MLflow server did not start" in output
    assert "not a database" in output
