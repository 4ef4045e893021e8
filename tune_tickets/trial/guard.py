"""Workers may not touch the databases: the driver alone writes to Optuna's storage and to MLflow."""

import os
import sys
from typing import Any

from tune_tickets.errors import TicketsError

ENVIRONMENT = "TUNE_TICKETS_DRIVER_ONLY"
"""Holds the paths of the databases, in worker processes only."""


class DriverOnly(TicketsError):
    """A worker tried to open a database that belongs to the driver."""


def install() -> None:
    """Set up as Ray's worker process hook: refuses every way Python has of opening the driver's databases."""
    paths = {os.path.realpath(path) for path in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if path}
    if not paths:
        return

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("sqlite3.connect", "open") and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
            name = os.fsdecode(arguments[0]).removeprefix("file:").split("?")[0]
            if os.path.realpath(name) in paths:
                raise DriverOnly(f"{name} belongs to the driver; workers hand their results over and never open it")

    sys.addaudithook(refuse)
