"""Where a task's rows come from: a bundled corpus, a local file, or the hub."""

from pathlib import Path

from tune_tickets.config.task import Task
from tune_tickets.data.bundled import PREFIX, read_bundled
from tune_tickets.data.files import READERS, extension, read_file
from tune_tickets.data.hub import read_hub
from tune_tickets.data.table import Table
from tune_tickets.errors import DataError


def read_source(task: Task) -> Table:
    """The rows that training rows come from, and the other splits too unless `held_out` is set."""
    if _is_local(task.source):
        return _read_local(task.source)
    return read_hub(task.source, task.subset, task.train_split)


def read_held_out(task: Task) -> Table | None:
    """The rows that select and report rows come from, or None if they are split off the source."""
    if task.held_out is None:
        return None
    if _is_local(task.held_out):
        return _read_local(task.held_out)
    if _is_local(task.source):
        raise DataError(
            f"task.held_out is {task.held_out!r}, which is no file here; only where task.source is a hub data set can "
            "it name a split. Correct the path, or leave held_out out to split the rows off the source."
        )
    return read_hub(task.source, task.subset, task.held_out)


def _read_local(source: str) -> Table:
    return read_bundled(source) if source.startswith(PREFIX) else read_file(Path(source).expanduser())


def _is_local(source: str) -> bool:
    """Bundled names, files, and what can only be meant as a path; a folder is read as a hub data set would be."""
    path = Path(source).expanduser()
    if source.startswith(PREFIX) or path.is_file():
        return True
    looks_like_path = path.is_absolute() or source.startswith((".", "~")) or len(path.parts) > 2
    return not path.is_dir() and (looks_like_path or extension(path) in READERS)
