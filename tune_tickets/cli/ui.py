"""The verb `ui`: MLflow's web page for the runs of a results folder, on this machine only."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, NoReturn

import typer

from tune_tickets.errors import TicketsError

HOST = "127.0.0.1"
DEFAULT_RESULTS = Path("results")
PORTS_TRIED = 100
START_SECONDS = 120.0
STOP_SECONDS = 10.0
# No telemetry, no jobs started by a web page, no pickles.
SAFE = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
}


def ui(
    results: Annotated[
        Path | None, typer.Argument(metavar="RESULTS", help="Results folder; default: the newest under results/")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on localhost; if it is in use, the next free one is taken")] = 5000,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser window")] = True,
) -> None:
    """Compare the trials of a search in MLflow, until Ctrl-C."""
    folder = find_results(results)
    _follow_move(folder)
    free = free_port(port)
    address = f"http://{HOST}:{free}"
    with tempfile.TemporaryFile("w+") as log, _stopping_on_sigterm(), _server(folder, free, log) as server:
        _wait_until_up(server, address, log)
        page = address + _landing_path(address)
        print(f"MLflow shows {folder} (stop it with Ctrl-C):\n{page}", flush=True)
        if open_browser:
            webbrowser.open(page)
        code = server.wait()
        raise TicketsError(f"The MLflow server stopped by itself with code {code}:\n{_tail(log)}")


def _follow_move(folder: Path) -> None:
    """Update the artifact paths of a moved folder. If that fails, the runs can still be shown."""
    from tune_tickets.tracking.place import DATABASE, follow_move

    try:
        if follow_move(folder):
            print(f"{folder} was moved: the paths of its artifacts in {DATABASE} were updated.", flush=True)
    except TicketsError as error:
        print(f"Note: {error}", flush=True)


def find_results(results: Path | None) -> Path:
    """Return `results` if it has an MLflow database, else its subfolder with the newest database."""
    from tune_tickets.tracking.place import DATABASE

    start = results or DEFAULT_RESULTS
    if (start / DATABASE).is_file():
        return start
    found = sorted(start.glob(f"*/{DATABASE}"), key=lambda path: path.stat().st_mtime)
    if found:
        return found[-1].parent
    raise TicketsError(
        f"There is no {DATABASE} in {start.resolve()} or one level below it: run a search first, or name the results "
        "folder (tune-tickets ui RESULTS). A search with tracking.uri set is shown by the server behind that URI."
    )


def free_port(first: int) -> int:
    """Return `first`, or the next port that is not in use."""
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise TicketsError(f"No port from {first} on is free on {HOST}: choose another with --port.")


def server_command(folder: Path, port: int) -> list[str]:
    """Return the command of the MLflow server. It reads artifacts from disk and accepts no uploads."""
    from tune_tickets.tracking.place import artifact_folder, database_uri

    stores = ["--backend-store-uri", database_uri(folder), "--default-artifact-root", artifact_folder(folder).as_uri()]
    network = ["--host", HOST, "--port", str(port), "--workers", "1", "--no-serve-artifacts"]
    return [sys.executable, "-m", "mlflow", "server", *stores, *network, "--uvicorn-opts", "--log-level warning"]


def server_environment() -> dict[str, str]:
    """Return the user's environment without settings of other MLflow servers, which could name another store."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "_MLFLOW_"))} | SAFE


@contextmanager
def _server(folder: Path, port: int, log: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    # Its own session: Ctrl-C reaches only us, and we can stop the whole process group with all workers.
    server = subprocess.Popen(
        server_command(folder, port), env=server_environment(), stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield server
    except KeyboardInterrupt:
        print("\nMLflow stopped.", flush=True)
    finally:
        _stop_group(server)


def _stop_group(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(STOP_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def _stopping_on_sigterm() -> Iterator[None]:
    """Let `kill` stop the server too, as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait_until_up(server: subprocess.Popen[bytes], address: str, log: IO[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise TicketsError(f"The MLflow server did not start (code {server.returncode}):\n{_tail(log)}")
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise TicketsError(f"The MLflow server did not answer within {START_SECONDS:.0f} s:\n{_tail(log)}")


def _landing_path(address: str) -> str:
    """Return the path of the run list of the newest search, or nothing if the server has none."""
    from tune_tickets.tracking.place import VIEW_TAG, view_path

    with urllib.request.urlopen(f"{address}/api/2.0/mlflow/experiments/search?max_results=1000", timeout=30) as answer:
        experiments = json.load(answer).get("experiments", [])
    ours = [one for one in experiments if any(tag["key"] == VIEW_TAG for tag in one.get("tags", []))]
    newest = max(ours, key=lambda one: int(one["creation_time"]), default=None)
    return view_path(newest["experiment_id"]) if newest else ""


def _tail(log: IO[str], lines: int = 15) -> str:
    log.seek(0)
    return "".join(log.readlines()[-lines:]).rstrip()
