"""Where MLflow's database and artifacts stand in a results folder; shared by the tracker and by `tune-tickets ui`."""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"


def database_uri(results: Path) -> str:
    """The tracking URI of the SQLite database inside `results`."""
    return sqlite_uri((results / DATABASE).resolve())


def sqlite_uri(path: Path) -> str:
    """The URI of an SQLite database; a `#`, `?` or `%20` in its path stays a part of the path."""
    return URL.create("sqlite", database=path.as_posix()).render_as_string()


def sqlite_path(uri: str) -> Path | None:
    """The file behind a URI, or None if it is none of an SQLite database."""
    try:
        url = make_url(uri)
    except ArgumentError:
        return None
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def artifact_folder(results: Path) -> Path:
    """The folder inside `results` that holds the artifacts of all runs."""
    return (results / ARTIFACTS).resolve()
