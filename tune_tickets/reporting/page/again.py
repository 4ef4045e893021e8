"""How to run a search again and how to load its ticket: the commands at the end of a report."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tune_tickets.reporting.page.source import Source

_FILES = ("source", "held_out", "like", "corpus", "vectors")
"""Keys that name a file or folder, in whichever section."""
_EXTENSION = re.compile(r"\.(csv|tsv|jsonl?|parquet|txt|safetensors)(\.gz)?$", re.IGNORECASE)


def reproduce(source: Source) -> tuple[str, ...]:
    """Commands for the folder that holds the results folder."""
    folder = shlex.quote(source.finished.folder.name)
    config = shlex.quote(f"{source.finished.folder.name}/config.yaml")
    return (f"tune-tickets run {config} --output again", f"tune-tickets compare {folder} again")


def paths_to_mend(source: Source) -> str:
    """Files that the configuration names as seen from the folder the search was run in; empty if there are none."""
    relative = [f"{name} ({path})" for name, path in _named(source) if _is_relative(path)]
    if not relative:
        return ""
    first = relative[0].split(" ")[0]
    return (
        f"Relative paths are seen from the folder a command is run in: {', '.join(relative)}. "
        f"Elsewhere add where the file is, for example {first}=/path/to/it."
    )


def _named(source: Source) -> Iterator[tuple[str, str]]:
    """Settings that may name a file, with those of OOD twins, which stand in lists."""
    for name, value in source.finished.settings.items():
        if name.rpartition(".")[2] in _FILES and isinstance(value, str):
            yield name, value
        elif name.endswith("task.ood"):
            yield from ((name, str(twin["source"])) for twin in value or () if "source" in twin)


def _is_relative(path: str) -> bool:
    """A folder looks like a hub id: it is one where nothing of that name lies here, as for the search itself."""
    is_file = bool(_EXTENSION.search(path)) or path.startswith(("./", "../")) or Path(path).exists()
    return is_file and "://" not in path and not Path(path).expanduser().is_absolute()


def load(source: Source) -> tuple[str, ...]:
    """Python that opens the best ticket, if there is one."""
    ticket = source.summary.selected.ticket
    if ticket is None:
        return ()
    path = f"{source.finished.folder.name}/{ticket}"
    pair = isinstance(source.finished.settings.get("task.text"), list)
    row = "('the first text', 'the second text')" if pair else "'a text to classify'"
    return (
        "from tune_tickets import load_ticket",
        "",
        f"ticket = load_ticket({path!r})",
        f"ticket.predict([{row}])  # [(label, probability)]",
    )
