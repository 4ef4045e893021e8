"""A PostgreSQL of Debian's packages and an MLflow server on it, in temporary folders on free ports of this machine."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = Path("/usr/lib/postgresql")
OWNER = "postgres"
"""initdb refuses to run as root, so root borrows the account that Debian's package brings."""


def why_not() -> str | None:
    """What is missing to start one, in words."""
    if _programs() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        return "the driver of PostgreSQL is not installed: pip install -e '.[postgres]'"
    return None


@contextmanager
def postgres() -> Iterator[str]:
    """The URI of a fresh database with a password; all of it is gone afterwards. SQLAlchemy 2.1 has another driver."""
    programs = _programs()
    assert programs is not None
    folder, port, password = Path(tempfile.mkdtemp(prefix="tt-pg-")), free_port(), secrets.token_hex(8)
    (folder / "password").write_text(password)
    if os.geteuid() == 0:
        shutil.chown(folder, OWNER)
        shutil.chown(folder / "password", OWNER)
    data, options = folder / "data", f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    try:
        _run(
            programs / "initdb", "-D", data, "-U", "tickets", "-A", "scram-sha-256", f"--pwfile={folder}/password", "-N"
        )
        _run(programs / "pg_ctl", "-D", data, "-o", f"{options} -c fsync=off", "-l", folder / "log", "-w", "start")
        try:
            yield f"postgresql+psycopg2://tickets:{password}@127.0.0.1:{port}/postgres"
        finally:
            _run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def tracking_server(database: str, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of an MLflow server that keeps runs in `database` and takes artifacts into `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", database, "--artifacts-destination", str(folder / "artifacts")]
    safe = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, env=environment | safe, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
        try:
            _wait(server, f"http://127.0.0.1:{port}", folder / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _programs() -> Path | None:
    found = sorted(PROGRAMS.glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _run(*command: object) -> None:
    borrowed = ["runuser", "-u", OWNER, "--"] if os.geteuid() == 0 else []
    # pg_ctl leaves the server with our pipes open: nothing may wait for their end.
    with tempfile.TemporaryFile("w+") as said:
        ended = subprocess.run([*borrowed, *map(str, command)], stdout=said, stderr=said, cwd="/")
        said.seek(0)
        assert ended.returncode == 0, said.read()


def _wait(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise AssertionError(f"the MLflow server did not answer:\n{log.read_text()}")
