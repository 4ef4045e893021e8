"""Guess the task of a file from its columns. `tune-tickets init` writes the guess for the user to check."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tune_tickets.config.task import Rows, Task
from tune_tickets.data.files import Table
from tune_tickets.data.rows import Example, examples, is_empty, label_names
from tune_tickets.data.splits import unique
from tune_tickets.errors import DataError

_LABEL_COLUMNS = ("label", "labels", "gold_label", "target", "class", "category", "sentiment", "polarity", "y")
_PAIRS = (
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("evidence", "claim"),
)
_MOST_LABELS = 50
_FEWEST_ROWS = 40
_MOST_TRAINING_ROWS = 2000  # about 60 steps of 32 rows per epoch
_TOKENS_PER_WORD = 1.3


@dataclass(frozen=True)
class Guess:
    """A task with all its fields set, and what the guess is based on."""

    task: Task
    usable: int
    counts: dict[str, int]
    """Usable rows per label, in class order."""
    words: int
    """95% of the rows have at most this many words."""
    others: tuple[str, ...]
    """Columns the task does not use."""


def guess_task(table: Table) -> Guess:
    """Guess text columns, label column and row counts of a table.

    Raises:
        DataError: no column can be the label or the text, or there are too few rows.
    """
    pair = _pair(table)
    label = _label_column(table, pair)
    texts = pair or (_longest_text(table, label),)
    task = Task(source=table.name, text=pair or texts[0], label=label, attacked=texts[-1])
    names = label_names(table, task)
    rows = unique(examples(table, task, names)[0]).rows
    words = _percentile_words(rows)
    sizes = _sizes(table, len(rows))
    task = task.model_copy(update={"labels": names, "max_length": max_length(words), "rows": sizes})
    counts = Counter(row.label for row in rows)
    others = tuple(column for column in table.columns if column not in (*texts, label))
    return Guess(task, len(rows), {name: counts[index] for index, name in enumerate(names)}, words, others)


def max_length(words: int) -> int:
    """Return the number of tokens for this many words: a multiple of 8 from 32 to 256."""
    return min(256, max(32, math.ceil(words * _TOKENS_PER_WORD / 8) * 8))


def _pair(table: Table) -> tuple[str, str] | None:
    by_name = {column.lower(): column for column in table.columns}
    for first, second in _PAIRS:
        if first in by_name and second in by_name:
            return by_name[first], by_name[second]
    return None


def _label_column(table: Table, pair: tuple[str, str] | None) -> str:
    distinct = {
        column: len({str(value).strip() for value in table.column(column) if not is_empty(value)})
        for column in table.columns
        if column not in (pair or ())
    }
    few = [column for column, count in distinct.items() if count <= min(_MOST_LABELS, len(table) // 2)]
    # A column named label that has a single value is more likely bad data than a sign that another column is the label.
    named = [column for name in _LABEL_COLUMNS for column in few if column.lower() == name]
    several = [column for column in named or few if distinct[column] >= 2]
    if named:
        return (several or named)[0]
    if not several:
        seen = ", ".join(f"{column!r} {count}" for column, count in distinct.items())
        raise DataError(
            f"{table.name}: no column looks like a label: 2 to {_MOST_LABELS} distinct values, each on two or more "
            f"rows on average (distinct values per column: {seen}). Check the file, or write the YAML by hand."
        )
    return min(reversed(several), key=distinct.__getitem__)


def _longest_text(table: Table, label: str) -> str:
    lengths = {column: _mean_words(table.column(column)) for column in table.columns if column != label}
    lengths = {column: length for column, length in lengths.items() if length > 0}
    if not lengths:
        raise DataError(
            f"{table.name}: no column except the label column {label!r} holds texts; the columns are "
            f"{', '.join(map(repr, table.columns))}. Add a column of texts."
        )
    return max(lengths, key=lengths.__getitem__)


def _mean_words(values: Sequence[object]) -> float:
    """Return the mean number of words per row, or 0 if a value is not a string."""
    present = [value for value in values if not is_empty(value)]
    texts = [value for value in present if isinstance(value, str)]
    return sum(len(text.split()) for text in texts) / len(texts) if texts and len(texts) == len(present) else 0.0


def _percentile_words(rows: Sequence[Example]) -> int:
    lengths = sorted(sum(len(text.split()) for text in row.texts) for row in rows)
    return lengths[math.ceil(0.95 * len(lengths)) - 1]


def _sizes(table: Table, usable: int) -> Rows:
    if usable < _FEWEST_ROWS:
        raise DataError(
            f"{table.name}: {usable} usable rows are too few for train, select and report splits; "
            f"give at least {_FEWEST_ROWS}."
        )
    report, select = min(512, usable // 5), min(256, usable * 3 // 20)
    left = usable - report - select
    return Rows(train=_MOST_TRAINING_ROWS if left > _MOST_TRAINING_ROWS else None, select=select, report=report)
