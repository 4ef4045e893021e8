"""How to run a search again and how to load its ticket: the commands at the end of a report."""

import re
import shlex
from pathlib import Path

from tune_tickets.reporting.page.source import Source

_FILES = ("task.source", "task.held_out", "model.source")
_EXTENSION = re.compile(r"\.(csv|tsv|jsonl?|parquet)(\.gz)?$", re.IGNORECASE)


def reproduce(source: Source) -> tuple[str, ...]:
    """Commands for the folder that holds the results folder."""
    folder = shlex.quote(source.finished.folder.name)
    config = shlex.quote(f"{source.finished.folder.name}/config.yaml")
    return (f"tune-tickets run {config} --output again", f"tune-tickets compare {folder} again")


def paths_to_mend(source: Source) -> str:
    """Files that the configuration names as seen from the folder the search was run in; empty if there are none."""
    named = {name: source.finished.settings.get(name) for name in _FILES}
    relative = [f"{name} ({path})" for name, path in named.items() if isinstance(path, str) and _is_relative(path)]
    if not relative:
        return ""
    first = relative[0].split(" ")[0]
    return (
        f"Relative paths are seen from the folder a command is run in: {', '.join(relative)}. "
        f"Elsewhere add where the file is, for example {first}=/path/to/it."
    )


def _is_relative(path: str) -> bool:
    is_file = bool(_EXTENSION.search(path)) or path.startswith(("./", "../"))
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
