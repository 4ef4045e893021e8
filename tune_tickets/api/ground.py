"""Which rows a saved model is attacked on: those of a search, or of any source that `task.source` can name."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tune_tickets.config import Settings, load_experiment
from tune_tickets.config.document import apply_override
from tune_tickets.config.explain import validate
from tune_tickets.config.source import Source
from tune_tickets.errors import ConfigError
from tune_tickets.tuning.results import experiment_beside, ticket_name

_YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Ground:
    """The settings that say which rows, and whether they are a search's select rows."""

    settings: Settings
    searched: bool


def find_ground(
    ticket: str, columns: tuple[str, ...] | None, data: str | None, column: str | None, overrides: list[str]
) -> Ground:
    """The experiment that `data` names or that lies beside the ticket; else a task of its own around the source."""
    for override in overrides:
        if not override.startswith("task."):
            raise ConfigError(f"override '{override}': only keys of the task can be set here, such as task.label=stars")
    experiment = Path(data) if data is not None and data.endswith(_YAML) else None
    if data is None:
        experiment = experiment_beside(ticket)
    if experiment is not None:
        present = load_experiment(experiment, overrides).settings.task.columns
        chosen = [] if column is None else [_column_override(column, present)]
        settings = load_experiment(experiment, [*overrides, *chosen]).settings
        return Ground(_on_own_task(settings, ticket) if data is None else settings, searched=True)
    return Ground(_around(data, columns or ("text",), column, overrides), searched=False)


def _on_own_task(settings: Settings, ticket: str) -> Settings:
    """A ticket that was saved for a further task is attacked on the rows of that task."""
    own = [name for name in settings.transfer if Path(ticket).name == ticket_name(name)]
    return settings.model_copy(update={"task": settings.transfer[own[0]].task}) if own else settings


def _around(data: str | None, columns: tuple[str, ...], column: str | None, overrides: list[str]) -> Settings:
    task: dict[str, Any] = {"text": columns[0] if len(columns) == 1 else list(columns)}
    if data is not None:
        task["source"] = data
    document: dict[str, Any] = {"task": task}
    source = Source("command line")
    for override in overrides:
        apply_override(document, override, source)
    if column is not None:
        text = task["text"]
        present = (text,) if isinstance(text, str) else tuple(text)
        apply_override(document, _column_override(column, present), source)
    return validate(Settings, document, source)


def _column_override(column: str, present: tuple[str, ...]) -> str:
    """A single text column goes by the name given; of a pair one column is chosen."""
    key = "task.text" if len(present) == 1 and column not in present else "task.attacked"
    return f"{key}={json.dumps(column)}"
