"""Optuna's storage: an SQLite database in the results folder."""

from pathlib import Path

import optuna
from optuna.storages import RDBStorage

from tune_tickets.tracking.whole import SQLITE, make_whole


def open_storage(path: Path) -> RDBStorage:
    """The storage at a path, made if it is not there."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    uri = f"{SQLITE}{path}"
    make_whole(uri, _make)
    return RDBStorage(uri)


def _make(uri: str) -> None:
    storage = RDBStorage(uri)
    storage.remove_session()
    storage.engine.dispose()
