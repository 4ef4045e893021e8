"""Ticket files of tiny pruned models of both families, and their exports, each made once."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.models.test_loading import made_ticket
from tune_tickets.export.exporting import export_ticket
from tune_tickets.tickets.ticket import Ticket, save_ticket

PAIR = ("premise", "hypothesis")


class Exported(NamedTuple):
    file: Path
    ticket: Ticket
    folder: Path


@pytest.fixture
def make(tmp_path):
    """Writes a ticket file and gives its path and content."""

    def write(family="bert", name="mine.safetensors", columns=("text",), **story) -> tuple[Path, Ticket]:
        *_, ticket = made_ticket(family, tmp_path, columns=columns)
        ticket = replace(ticket, metadata=replace(ticket.metadata, **story))
        save_ticket(ticket, tmp_path / "results" / name)
        return tmp_path / "results" / name, ticket

    return write


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Exports a ticket, or gives the export made before: tracing takes seconds. Nobody may change it."""

    @cache
    def export(form, family="bert", columns=("text",), neurons=0.3, pooling="first") -> Exported:
        folder = tmp_path_factory.mktemp("exported")
        *_, ticket = made_ticket(family, folder, columns=columns, neurons=neurons, pooling=pooling)
        save_ticket(ticket, folder / "mine.safetensors")
        return Exported(folder / "mine.safetensors", ticket, export_ticket(str(folder / "mine.safetensors"), form))

    return export
