"""Attack records: rows that go in, records that come out, their metrics, parquet files and word-level changes."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import BinaryIO, Literal, NamedTuple

import pyarrow
import pyarrow.parquet

from tune_tickets.data.sample import Sample
from tune_tickets.errors import DataError
from tune_tickets.results.records import AttackFigures, Comparison, Record, Substitution
from tune_tickets.results.statistics import wilson

Status = Literal["failed", "successful", "skipped", "lost"]


@dataclass(frozen=True)
class AttackRow:
    """A labelled example; `index` is its number in the task and seeds its attack."""

    index: int
    texts: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class Found:
    """What an attack found for one row, before it is recorded."""

    status: Status
    texts: tuple[str, ...]
    """The columns as the attack left them."""
    prediction: int
    perturbed_prediction: int
    queries: int
    classes: int
    """Number of classes of the model."""
    words: tuple[list[str], list[str]]
    """The words of the row before and after."""


@dataclass
class Tally:
    """How many candidates the attacks proposed, and how many of them each constraint rejected."""

    candidates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class RowResult:
    """What is counted of a row.

    A failed attack was withstood. A skipped row was wrong from the start. A lost row was not attacked, because an
    earlier threat model of the suite had changed its answer.
    """

    index: int
    status: Status
    queries: int
    words_changed: float
    """% of all the row's words that were replaced."""
    similarity: float | None
    """Cosine of the sentence embeddings of the attacked text before and after; None unless the attack worked."""


@dataclass(frozen=True)
class AttackRecord(RowResult):
    """One attacked example with its texts."""

    texts: tuple[str, ...]
    perturbed_texts: tuple[str, ...]
    label: int
    prediction: int
    perturbed_prediction: int

    def counted(self) -> RowResult:
        """The record without its texts."""
        return RowResult(self.index, self.status, self.queries, self.words_changed, self.similarity)


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
    after: tuple[str, ...] | None = None,
) -> AttackFigures:
    """Aua, Suc and #Query by TextAttack's definitions; rows wrong from the start count as not robust.

    `candidates` is how many changed texts were proposed, `rejected` how many of them each constraint threw out;
    `sample` is the digest of the rows. In a suite, `after` are the fingerprints of the threat models before this one.
    """
    if not records:
        raise DataError(f"no row was attacked by {threat_name}: there is nothing to count")
    attacked = [record for record in records if record.status in ("failed", "successful")]
    successes = [record for record in attacked if record.status == "successful"]
    skipped = sum(record.status == "skipped" for record in records)
    rows, failures = len(records), len(attacked) - len(successes)
    return AttackFigures(
        threat=threat_name,
        fingerprint=fingerprint,
        rows=rows,
        clean=100 * (rows - skipped) / rows,
        accuracy_under_attack=100 * failures / rows,
        interval=wilson(failures, rows),
        success_rate=100 * len(successes) / len(attacked) if attacked else 0.0,
        queries=fmean(record.queries for record in attacked) if attacked else 0.0,
        words_changed=fmean(record.words_changed for record in successes) if successes else 0.0,
        similarity=_mean([record.similarity for record in successes if record.similarity is not None]),
        skipped=skipped,
        survived=tuple(record.status == "failed" for record in records),
        candidates=candidates,
        rejected=_shares(rejected or {}, candidates),
        sample=sample,
        after=after,
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


_SAMPLE = 20
"""Substitutions shown per threat model."""
_CONTEXT = 6  # words on either side
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


class Piece(NamedTuple):
    """A stretch of a text before and after the attack; unchanged if both are equal."""

    old: str
    new: str


class _Edit(NamedTuple):
    """Words `start` to `end` of the original became words `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


def pieces(before: str, after: str) -> list[Piece]:
    """The changed text cut where it changed: the new sides joined are `after`."""
    old, new = _Words(before), _Words(after)
    found: list[Piece] = []
    position = 0
    for edit in _edits(old.words, new.words):
        start, end = new.extent(edit.new_start, edit.new_end)
        found += [Piece(same, same) for same in (after[position:start],) if same]
        found.append(Piece(old.text(edit.start, edit.end), after[start:end]))
        position = end
    rest = after[position:]
    return found + ([Piece(rest, rest)] if rest else [])


def sample_substitutions(records: Sequence[AttackRecord], seed: int, size: int = _SAMPLE) -> tuple[Substitution, ...]:
    """A seeded sample of all changes made, successful or not, in the order of the rows."""
    everything = [found for record in records if record.status != "skipped" for found in _substitutions(record)]
    if len(everything) <= size:
        return tuple(everything)
    chosen = sorted(random.Random(seed).sample(range(len(everything)), size))
    return tuple(everything[index] for index in chosen)


def _substitutions(record: AttackRecord) -> Iterator[Substitution]:
    for before, after in zip(record.texts, record.perturbed_texts, strict=True):
        old, new = _Words(before), _Words(after)
        for edit in _edits(old.words, new.words):
            start, end = old.extent(edit.start, edit.end)
            first, _ = old.extent(max(edit.start - _CONTEXT, 0), edit.start)
            _, last = old.extent(edit.end, min(edit.end + _CONTEXT, len(old.words)))
            yield Substitution(
                row=record.index,
                left=before[first:start],
                old=before[start:end],
                new=new.text(edit.new_start, edit.new_end),
                right=before[end:last],
                similarity=record.similarity,
                successful=record.status == "successful",
            )


class _Words:
    """The words and signs of a text with their places."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans = [match.span() for match in _WORD.finditer(text)]
        self.words = [text[start:end] for start, end in self._spans]

    def extent(self, first: int, last: int) -> tuple[int, int]:
        """The characters of words `first` to `last`; no words are no characters, before word `first`."""
        if first == last:
            place = self._spans[first][0] if first < len(self._spans) else len(self._text)
            return place, place
        return self._spans[first][0], self._spans[last - 1][1]

    def text(self, first: int, last: int) -> str:
        start, end = self.extent(first, last)
        return self._text[start:end]


def _edits(old: Sequence[str], new: Sequence[str]) -> Iterator[_Edit]:
    """The words that differ, aligned; as many new words as old ones are taken as one change each."""
    # Attacks change few words: what is equal at both ends need not be aligned, which for long texts takes minutes.
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    for kind, *places in SequenceMatcher(None, inner_old, inner_new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        start, end, new_start, new_end = (head + place for place in places)
        if end - start == new_end - new_start:
            for old_place, new_place in zip(range(start, end), range(new_start, new_end), strict=True):
                yield _Edit(old_place, old_place + 1, new_place, new_place + 1)
        else:
            yield _Edit(start, end, new_start, new_end)


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words the two begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


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
