"""The command line in a separate process, forked after all imports, because these take seconds."""

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE = 400.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [__name__, "tune_tickets.cli.run", "tune_tickets.search.run", "tune_tickets.tracking.tracker", "mlflow.pyfunc"]
)


def run_cli(arguments: Sequence[object], folder: Path, environment: Mapping[str, str], said: Path) -> int:
    """Run the command line to its end in a folder; all it says goes into a file. Gives its exit code."""
    process = _FORKS.Process(target=_main, args=([*map(str, arguments)], str(folder), dict(environment), str(said)))
    process.start()
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"{arguments} has not ended in {PATIENCE:.0f} s:\n{said.read_text(encoding='utf-8')}")
    return process.exitcode


def _main(arguments: list[str], folder: str, environment: dict[str, str], said: str) -> None:
    from tune_tickets.cli.app import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with open(said, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    main(arguments)
