"""A database is complete or absent."""

import sqlite3

import pytest
import sqlalchemy

from tune_tickets.tracking.place import make_whole, sqlite_path, sqlite_uri


def fill(uri: str) -> None:
    with sqlite3.connect(sqlite_path(uri)) as database:
        database.execute("create table runs (name text)")


def test_a_database_appears_when_it_is_made_and_is_never_made_again(tmp_path):
    path = tmp_path / "results" / "mlflow.db"

    def killed(uri: str) -> None:
        fill(uri)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_whole(sqlite_uri(path), killed)
    assert not path.exists()
    make_whole(sqlite_uri(path), fill)
    before = path.read_bytes()
    make_whole(sqlite_uri(path), killed)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize("name", ["a b", "50%20 off", "#1", "where?x=1&y", "prüfung", "a+b"])
def test_every_name_of_a_folder_is_the_same_for_us_and_for_sqlalchemy(tmp_path, name):
    path = tmp_path / name / "optuna.db"
    make_whole(sqlite_uri(path), lambda uri: sqlalchemy.create_engine(uri).connect().close())
    assert sqlite_path(sqlite_uri(path)) == path
    assert path.exists()
    assert sqlite_path("postgresql://host/tracking") is None


def synchronous(uri: str) -> int:
    """How long a write waits: 0 for not at all, 2 until it is on the disk."""
    engine = sqlalchemy.create_engine(uri)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
    engine.dispose()
    return found


def test_only_while_it_is_made_does_no_write_wait_for_the_disk(tmp_path):
    uri, seen = sqlite_uri(tmp_path / "mlflow.db"), []

    def make(beside: str) -> None:
        fill(beside)
        seen.append(synchronous(beside))

    make_whole(uri, make)
    assert [*seen, synchronous(uri)] == [0, 2]


def test_a_server_is_left_alone(tmp_path):
    filled = []
    make_whole("http://localhost:5000", filled.append)
    assert filled == []
    assert list(tmp_path.iterdir()) == []
