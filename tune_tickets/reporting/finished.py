"""Finished experiments read back from their results folders, to stand side by side under short labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from tune_tickets.config.document import Document
from tune_tickets.config.domain import is_domain
from tune_tickets.config.source import read_yaml
from tune_tickets.errors import TicketsError
from tune_tickets.records import Summary, TrialRecord
from tune_tickets.reporting.summary import FILE_NAME, read_summary

CONFIG_FILE = "config.yaml"
WITHOUT_EFFECT = ("name", "store", "tracking")
"""Sections that cannot change a figure."""


@dataclass(frozen=True)
class Finished:
    """One experiment: its summary, and its configuration with dotted keys; search domains stay whole."""

    label: str
    folder: Path
    summary: Summary
    settings: Mapping[str, Any]

    @property
    def winner(self) -> TrialRecord | None:
        """The selected trial."""
        return next((trial for trial in self.summary.trials if trial.id == self.summary.selected.trial), None)


def read_finished(folders: Sequence[Path]) -> list[Finished]:
    """Two or more results folders as A, B, C, ..."""
    places = [folder.parent if folder.name == FILE_NAME else folder for folder in folders]
    if len(places) < 2:
        raise TicketsError("Name two or more results folders to compare, such as results/a results/b.")
    if len({place.resolve() for place in places}) < len(places):
        raise TicketsError("A results folder is named twice: an experiment equals itself.")
    if len(places) > len(ascii_uppercase):
        raise TicketsError(f"{len(places)} experiments fit on no page: compare at most {len(ascii_uppercase)}.")
    return [read_results(place, label) for place, label in zip(places, ascii_uppercase, strict=False)]


def read_results(folder: Path, label: str = "") -> Finished:
    """One results folder."""
    summary = read_summary(folder)
    config = folder / CONFIG_FILE
    if not config.is_file():
        raise TicketsError(f"There is no {CONFIG_FILE} in {folder}: name the folder as the search has left it.")
    document, _ = read_yaml(config)
    effective = {key: value for key, value in document.items() if key not in WITHOUT_EFFECT}
    return Finished(label, folder, summary, _flat(effective))


def _flat(section: Document, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict) and not is_domain(value):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
