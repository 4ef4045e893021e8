"""Planting a spurious marker: a token before the text that mostly tells the label, and in the OOD twin mostly lies."""

from collections.abc import Sequence
from dataclasses import replace

from tune_tickets.config.task import REVERSED, Planted
from tune_tickets.data.ood import TwinData, TwinExample, split_twin
from tune_tickets.data.rows import Example
from tune_tickets.data.splits import in_order, take
from tune_tickets.errors import DataError

AGREEING, MISLEADING = "agreeing", "misleading"
"""The groups of the reversed twin: rows that carry their own label's marker, and the others."""


def check_markers(planted: Planted, names: Sequence[str]) -> None:
    """Every label has a marker."""
    if len(planted.markers) != len(names):
        raise DataError(
            f"task.planted.markers names {len(planted.markers)} markers, but the labels are "
            f"{', '.join(map(repr, names))}: write one marker per label, in this order."
        )


def plant(rows: Sequence[Example], markers: Sequence[str], share: float, seed: int) -> tuple[Example, ...]:
    """The rows in their order, each behind a marker: of every label round(share x rows) carry its own.

    Which ones is decided by the seed and the text. The others carry the markers of the other labels in turn.
    """
    marks: dict[Example, str] = {}
    for label in sorted({row.label for row in rows}):
        same = in_order((row for row in rows if row.label == label), seed, "planted")
        agreeing = round(share * len(same))
        others = [marker for index, marker in enumerate(markers) if index != label]
        for index, row in enumerate(same):
            marks[row] = markers[label] if index < agreeing else others[(index - agreeing) % len(others)]
    return tuple(replace(row, texts=(f"{marks[row]} {row.texts[0]}", *row.texts[1:])) for row in rows)


def marker_of(row: Example, markers: Sequence[str]) -> int | None:
    """Which marker the row carries, by its number: the bias feature of a planted task; None without one."""
    first = row.texts[0].split(maxsplit=1)[:1]
    return markers.index(first[0]) if first and first[0] in markers else None


def reversed_twin(
    rows: Sequence[Example], planted: Planted, names: tuple[str, ...], seed: int
) -> tuple[TwinData, tuple[Example, ...]]:
    """The OOD twin of a planted task from rows of its own, and those of its rows that may be trained on."""
    trained, measured = take(rows, (planted.train_rows,))
    report, select = split_twin(
        [TwinExample(row.texts, row.label) for row in measured], planted.rows.report, planted.rows.select, seed
    )
    twin = TwinData(
        name=REVERSED,
        select=_grouped(plant(select, planted.markers, planted.ood_strength, seed), planted.markers),
        report=_grouped(plant(report, planted.markers, planted.ood_strength, seed), planted.markers),
        labels=names,
        answers=tuple(range(len(names))),
        metric="accuracy",
        restrict=False,
    )
    return twin, plant(trained, planted.markers, planted.ood_strength, seed)


def _grouped(rows: Sequence[Example], markers: Sequence[str]) -> tuple[TwinExample, ...]:
    groups = (AGREEING if marker_of(row, markers) == row.label else MISLEADING for row in rows)
    return tuple(TwinExample(row.texts, row.label, group) for row, group in zip(rows, groups, strict=True))
