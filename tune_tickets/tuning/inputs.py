"""What a search is fed, told to MLflow: the rows of its tasks and twins by digest, and its threat models."""

from collections.abc import Iterator

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config import Settings
from tune_tickets.config.task import Task
from tune_tickets.data.example import rows_digest
from tune_tickets.tracking.inputs import RowsRecord, SearchInputs, ThreatInput
from tune_tickets.trial.pipeline import World
from tune_tickets.trial.rows import read_rows
from tune_tickets.trial.stage import StageKey
from tune_tickets.trial.store import Store


def search_inputs(settings: Settings, world: World, store: Store) -> SearchInputs:
    """Read back from the store what preflight has put there."""
    rows = list(_rows(settings.task, world.data, store))
    for name, key in world.transfers.items():
        rows += _rows(settings.transfer[name].task, key, store)
    return SearchInputs(tuple(rows), tuple(_threat(threat) for threat in world.threats))


def _rows(task: Task, key: StageKey, store: Store) -> Iterator[RowsRecord]:
    kept = store.find(key.name, key.digest)
    if kept is None:
        return
    found = read_rows(store, kept)
    for context, examples in (("train", found.train), ("select", found.select)):
        digest = rows_digest((row.texts, row.label) for row in examples)
        name = f"{task.source} ({context})"
        yield RowsRecord(name, context, digest, task.source, len(examples), found.columns, found.labels)


def _threat(threat: ThreatModel) -> ThreatInput:
    return ThreatInput(threat.name, threat.fingerprint, dict(threat.resources))
