"""A few attacked texts of the winner to look at."""

from collections.abc import Sequence
from pathlib import Path

from tune_tickets.attacks.changes import Piece, pieces
from tune_tickets.attacks.rows import AttackRecord
from tune_tickets.records import StageRecord, Summary
from tune_tickets.reporting.pictures.evidence import Example
from tune_tickets.tickets.ticket import read_header
from tune_tickets.trial.store import Store
from tune_tickets.tuning.artifacts import attacked_records

SUCCESSES, FAILURES = 3, 1
"""Texts per threat model."""
MOST = 8


def examples(summary: Summary, store: Store, ticket: Path) -> tuple[Example, ...]:
    """Of every threat model the first rows whose attack succeeded, and one that withstood."""
    model, stages = _model(summary)
    labels = read_header(ticket).labels if ticket.is_file() else ()
    found = [
        _example(model, threat, record, labels)
        for threat, records in attacked_records(stages, store).items()
        for record in _chosen(records)
    ]
    return tuple(found[:MOST])


def _model(summary: Summary) -> tuple[str, tuple[StageRecord, ...]]:
    for trial in summary.trials:
        if trial.id == summary.selected.trial:
            return trial.id, trial.stages
    for control in summary.controls:
        return control.name, control.stages
    return "", ()


def _chosen(records: Sequence[AttackRecord]) -> list[AttackRecord]:
    changed = sorted((record for record in records if record.texts != record.perturbed_texts), key=lambda r: r.index)
    successful = [record for record in changed if record.status == "successful"]
    failed = [record for record in changed if record.status == "failed"]
    return successful[:SUCCESSES] + failed[:FAILURES]


def _example(model: str, threat: str, record: AttackRecord, labels: Sequence[str]) -> Example:
    columns = [pieces(before, after) for before, after in zip(record.texts, record.perturbed_texts, strict=True)]
    joined: list[Piece] = []
    for number, column in enumerate(columns):
        joined += [Piece(" | ", " | ")] * (number > 0) + column

    def name(label: int) -> str:
        return labels[label] if label < len(labels) else f"label {label}"

    return Example(
        model=model,
        threat=threat,
        row=record.index,
        successful=record.status == "successful",
        before=name(record.prediction),
        after=name(record.perturbed_prediction),
        pieces=tuple((piece.old, piece.new) for piece in joined),
    )
