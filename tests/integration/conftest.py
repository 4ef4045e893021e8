"""Real Ray, Optuna, MLflow and TextAttack on the tiny model, each run in its own folder."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.forked import run_cli

ROOT = Path(__file__).parent.parent.parent
TAG = "TUNE_TICKETS_TEST_RUN"
"""Set in the environment of everything a test starts, so that what is left behind can be found."""


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """Ray's session files; its sockets need a short path."""
    folder = Path(tempfile.mkdtemp(prefix="tt-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def environment(ray_folder: Path, tmp_path: Path) -> dict[str, str]:
    own = {"TUNE_TICKETS_RAY_DIR": str(ray_folder), TAG: str(tmp_path), "COLUMNS": "120"}
    # A Ray session of this process has said there how it was secured; every other one finds that out for itself.
    return {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"} | own


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the command line in the background."""

    def popen(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tune_tickets.cli", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    return popen


@pytest.fixture
def cli(
    environment: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[int, str]]:
    """Run the command line to its end: (exit code, all it printed)."""

    def call(*arguments: object) -> tuple[int, str]:
        said = tmp_path_factory.mktemp("said") / "printed.txt"
        code = run_cli(arguments, tmp_path, environment, said)
        return code, said.read_text(encoding="utf-8")

    return call


def left_behind(tag: str) -> list[str]:
    """Command lines of living processes that carry the tag in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
            if f"{TAG}={tag}".encode() in variables:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found
