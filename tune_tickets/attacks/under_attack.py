"""A saved classifier under attack: one threat model after the other on the same rows, and what is kept of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tune_tickets.attacks.changes import sample_substitutions
from tune_tickets.attacks.figures import figures
from tune_tickets.attacks.rows import AttackRecord, AttackRow
from tune_tickets.attacks.run import attack_rows
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.victim import Victim
from tune_tickets.data.sample import Sample
from tune_tickets.models.classifier import Classifier
from tune_tickets.results.records import AttackFigures, Comparison, Record, Substitution
from tune_tickets.results.statistics import wilson

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM


class Measurement(Record):
    """One threat model against one saved model."""

    model: str
    figures: AttackFigures
    resources: dict[str, str]
    clean_interval: tuple[float, float]
    seconds: float
    queries_per_second: float
    substitutions: tuple[Substitution, ...]


class AttackReport(Record):
    """What `tune-tickets attack --json` writes. `unfinished` attacks have no figure."""

    schema_version: int = 1
    data: str
    rows: int
    columns: tuple[str, ...]
    attacked: str
    seed: int
    measurements: tuple[Measurement, ...]
    comparisons: tuple[Comparison, ...] = ()
    complete: bool
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """The figures, every attacked text behind them, and the rows as the model was given them."""

    measurement: Measurement
    records: list[AttackRecord]
    sample: Sample


def _masked_lm(threat: ThreatModel, classifier: Classifier) -> "MaskedLM | None":
    if threat.words != "masked-lm":
        return None
    from tune_tickets.attacks.masked_words import resolved_masked_lm

    return resolved_masked_lm(classifier.model.device)


def measure(
    classifier: Classifier,
    sample: Sample,
    threat: ThreatModel,
    seed: int,
    batch_size: int,
    progress: Callable[[int, int], None],
) -> Measured:
    """Attack every row of the sample."""
    classifier.check_texts(len(sample.columns))
    import_module("tune_tickets.attacks.recipes")  # starting TextAttack takes seconds that are not the attack's
    started = time.monotonic()
    attacked = attack_rows(
        Victim(classifier.model, classifier.tokenizer, classifier.max_length, batch_size),
        [AttackRow(index, row.texts, row.label) for index, row in sample.rows],
        threat,
        columns=sample.columns,
        attacked=sample.attacked,
        labels=sample.labels,
        seed=seed,
        progress=progress,
        masked_lm=_masked_lm(threat, classifier),
    )
    seconds = time.monotonic() - started
    records = attacked.records
    measured = figures(records, threat.name, threat.fingerprint, attacked.rejected, attacked.candidates, sample.digest)
    return Measured(
        Measurement(
            model=classifier.name,
            figures=measured,
            resources=dict(threat.resources),
            clean_interval=wilson(measured.rows - measured.skipped, measured.rows),
            seconds=seconds,
            queries_per_second=sum(record.queries for record in records) / seconds,
            substitutions=sample_substitutions(records, seed),
        ),
        records,
        sample,
    )
