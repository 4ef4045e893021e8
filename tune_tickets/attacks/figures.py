"""From attack records to figures, and the records as parquet: every attacked text is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import BinaryIO

import pyarrow
import pyarrow.parquet

from tune_tickets.attacks.rows import AttackRecord, RowResult
from tune_tickets.errors import DataError
from tune_tickets.results.records import AttackFigures
from tune_tickets.results.statistics import wilson

_SCHEMA = pyarrow.schema(
    {
        "index": pyarrow.int64(),
        "texts": pyarrow.list_(pyarrow.string()),
        "perturbed_texts": pyarrow.list_(pyarrow.string()),
        "label": pyarrow.int64(),
        "prediction": pyarrow.int64(),
        "perturbed_prediction": pyarrow.int64(),
        "status": pyarrow.string(),
        "queries": pyarrow.int64(),
        "words_changed": pyarrow.float64(),
        "similarity": pyarrow.float64(),
    }
)


def figures(
    records: Sequence[RowResult],
    threat_name: str,
    fingerprint: str,
    rejected: Mapping[str, int] | None = None,
    candidates: int = 0,
    sample: str = "",
) -> AttackFigures:
    """Aua, Suc and #Query by TextAttack's definitions; rows wrong from the start count as not robust.

    `candidates` is how many changed texts were proposed, `rejected` how many of them each constraint threw out;
    `sample` is the digest of the rows.
    """
    if not records:
        raise DataError(f"no row was attacked by {threat_name}: there is nothing to count")
    attacked = [record for record in records if record.status != "skipped"]
    successes = [record for record in attacked if record.status == "successful"]
    rows, failures = len(records), len(attacked) - len(successes)
    return AttackFigures(
        threat=threat_name,
        fingerprint=fingerprint,
        rows=rows,
        clean=100 * len(attacked) / rows,
        accuracy_under_attack=100 * failures / rows,
        interval=wilson(failures, rows),
        success_rate=100 * len(successes) / len(attacked) if attacked else 0.0,
        queries=fmean(record.queries for record in attacked) if attacked else 0.0,
        words_changed=fmean(record.words_changed for record in successes) if successes else 0.0,
        similarity=_mean([record.similarity for record in successes if record.similarity is not None]),
        skipped=rows - len(attacked),
        survived=tuple(record.status == "failed" for record in records),
        candidates=candidates,
        rejected=_shares(rejected or {}, candidates),
        sample=sample,
    )


def write_parquet(records: Sequence[AttackRecord], path: Path) -> None:
    """Write the records, one row each."""
    table = pyarrow.Table.from_pylist([asdict(record) for record in records], schema=_SCHEMA)
    pyarrow.parquet.write_table(table, path)


def write_groups(groups: Sequence[tuple[Mapping[str, str], Sequence[AttackRecord]]], path: Path) -> None:
    """Write the records of several attacks into one file; the words that tell them apart become columns."""
    tables = []
    for words, records in groups:
        table = pyarrow.Table.from_pylist([asdict(record) for record in records], schema=_SCHEMA)
        for place, (name, word) in enumerate(words.items()):
            table = table.add_column(place, name, pyarrow.array([word] * len(records), pyarrow.string()))
        tables.append(table)
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables), path)


def read_parquet(source: Path | BinaryIO) -> list[AttackRecord]:
    """Read what `write_parquet` wrote."""
    rows = pyarrow.parquet.read_table(source, schema=_SCHEMA).to_pylist()
    pairs = ("texts", "perturbed_texts")
    return [AttackRecord(**{**row, **{name: tuple(row[name]) for name in pairs}}) for row in rows]


def _shares(rejected: Mapping[str, int], candidates: int) -> dict[str, float]:
    return {name: 100 * count / candidates if candidates else 0.0 for name, count in rejected.items()}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
