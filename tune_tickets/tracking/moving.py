"""Results folders that were moved or copied: MLflow keeps absolute paths of artifacts, which then lead astray."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from tune_tickets.errors import TicketsError
from tune_tickets.tracking.location import ARTIFACTS, DATABASE, artifact_folder

_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def follow_move(results: Path) -> bool:
    """Turn the paths in the database of `results` to the artifacts beside it; says whether there was need to.

    Only paths below a folder whose files are here by now are changed: other searches may share the database.
    """
    database, here = (results / DATABASE).resolve(), artifact_folder(results)
    if not database.is_file():
        return False
    try:
        with closing(sqlite3.connect(database.as_uri(), uri=True)) as connection, connection:
            left = {root for root, below in _paths(connection) if below and (here / below).exists()} - {here.as_uri()}
            for root in left:
                _turn(connection, root, here.as_uri())
    except sqlite3.Error as error:
        raise TicketsError(
            f"{results} was moved or {DATABASE} is damaged, and it cannot be mended ({error}): MLflow may not find the "
            "artifacts of its runs. Make the folder writable, or move it back."
        ) from error
    return bool(left)


def _columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    yield from ((table, column) for table, column in _COLUMNS if table in known)


def _paths(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """The artifact folder that each path lies in, as a URI, and the path below it."""
    for table, column in _columns(connection):
        for (uri,) in connection.execute(f"SELECT {column} FROM {table} WHERE {column} LIKE 'file:%'").fetchall():
            head, found, below = uri.rpartition(f"/{ARTIFACTS}/")
            if found:
                yield f"{head}/{ARTIFACTS}", unquote(below)


def _turn(connection: sqlite3.Connection, root: str, here: str) -> None:
    for table, column in _columns(connection):
        connection.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
            f"WHERE {column} = ? OR substr({column}, 1, ?) = ? || '/'",
            (here, len(root) + 1, root, len(root) + 1, root),
        )
