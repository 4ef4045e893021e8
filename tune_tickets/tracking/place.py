"""How MLflow's run list first opens: a shared view, kept as a tag of the experiment, with what matters.

Columns for the list; for the chart view parallel coordinates over the searched params, and clean against Aua.

The format belongs to MLflow's web page (3.15 to 3.17); a page that does not know it falls back to its own view.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, event, make_url
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError

from tune_tickets.errors import TicketsError
from tune_tickets.files import making

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


def make_whole(uri: str, make: Callable[[str], None]) -> None:
    """Have a new SQLite database made beside its place and move it there; others, and one that is there, are left."""
    path = sqlite_path(uri)
    if path is None or path.exists():
        return
    with making(path) as temporary, _not_waiting_for_the_disk():
        make(sqlite_uri(temporary))


@contextmanager
def _not_waiting_for_the_disk() -> Iterator[None]:
    """Hundreds of migrations need not reach the disk one by one: nobody looks at the file before it is whole."""

    def relax(connection: Any, _: object) -> None:  # noqa: ANN401 - of whichever driver
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", relax)
    try:
        yield
    finally:
        event.remove(Engine, "connect", relax)


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


VIEW_KEY = "tickets"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW_KEY}"
KIND_TAG = "mlflow.experimentKind"
KIND = "custom_model_development"  # not the page for chat traces
METRICS = ("clean", "aua")
SECTION = "tickets"
TAGS = ("title", "status", "feasible", "selected", "pareto")


def view_state(objectives: Sequence[str], params: Iterable[str]) -> str:
    """The run list sorted by objective, with the figures, the searched `params` and what became of each run.

    A vector is sorted by its last value, accuracy under attack: a ticket that may not win has a negative one, whatever
    its figures, and so stands below all others.
    """
    metrics = [f"metrics.`{name}`" for name in (*objectives, *METRICS)]
    searched = sorted(params)
    rest = [f"params.`{name}`" for name in searched] + [f"tags.`{name}`" for name in TAGS]
    order = metrics[len(objectives) - 1]
    state = {"selectedColumns": metrics + rest, "orderByKey": order, "orderByAsc": False, "runsHiddenMode": "SHOW_ALL"}
    return json.dumps(state | _charts(objectives, searched))


def _charts(objectives: Sequence[str], params: Sequence[str]) -> dict[str, Any]:
    """One section with the two charts that answer what to set; the page adds one of its own per metric."""
    card = {"metricSectionId": SECTION, "deleted": False, "isGenerated": False, "runsCountToCompare": 100}
    parallel = {"type": "PARALLEL", "uuid": f"{SECTION}-parallel", "showAllRuns": True}
    parallel |= {"selectedParams": list(params), "selectedMetrics": [*METRICS, objectives[-1]]}
    axes = {axis: {"key": key, "type": "METRIC"} for axis, key in zip(("xaxis", "yaxis"), METRICS, strict=True)}
    scatter = {"type": "SCATTER", "uuid": f"{SECTION}-scatter", **axes}
    section: dict[str, Any] = {
        "uuid": SECTION,
        "name": "Tickets",
        "display": True,
        "isReordered": False,
        "deleted": False,
    }
    section |= {"columns": 1, "cardHeight": 400}  # an axis per param needs the whole width
    charts = {"compareRunCharts": [card | parallel, card | scatter], "compareRunSections": [section]}
    return charts | {"isAccordionReordered": True}  # else the page sorts sections by name, and ours to the end


def view_path(experiment_id: str) -> str:
    """The part of the address behind the server's name that opens the view."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"
