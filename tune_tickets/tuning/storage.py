"""Optuna's storage: an SQLite database in the results folder."""

import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
from optuna.storages import RDBStorage

from tune_tickets.errors import TicketsError
from tune_tickets.tracking.location import sqlite_uri
from tune_tickets.tracking.whole import make_whole


def open_storage(path: Path) -> RDBStorage:
    """The storage at a path, made if it is not there; a damaged one is refused before anything is written to it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    uri = sqlite_uri(path)
    make_whole(uri, _make)
    _check(path)
    return RDBStorage(uri)


def _check(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as database:
            [(verdict,)] = database.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        raise TicketsError(
            f"{path} is damaged ({verdict}). Move it and the trials.jsonl beside it away and resume: the trials are "
            "drawn anew, and no finished stage is computed again"
        )


def _make(uri: str) -> None:
    storage = RDBStorage(uri)
    storage.remove_session()
    storage.engine.dispose()
