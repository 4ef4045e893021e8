"""How rows are split: no text occurs twice, label shares are those of the source, a seeded hash gives the order.

The split of a row depends on the seed, on its own text and on the other rows, but not on their order in a file.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tune_tickets.data.rows import Example

_Key = tuple[str, ...]


def text_key(example: Example) -> _Key:
    """Return the texts with case and white space normalised. Rows with equal keys are duplicates."""
    return tuple(" ".join(text.split()).casefold() for text in example.texts)


@dataclass(frozen=True)
class _Unique:
    """Rows with distinct texts, and how many rows were dropped."""

    rows: tuple[Example, ...]
    duplicates: int
    conflicts: int


def unique(rows: Iterable[Example]) -> _Unique:
    """Keep one row per text. A text with two labels is dropped entirely, because neither label can be trusted."""
    groups: defaultdict[_Key, list[Example]] = defaultdict(list)
    for row in rows:
        groups[text_key(row)].append(row)
    kept: list[Example] = []
    duplicates = conflicts = 0
    for group in groups.values():
        if len({row.label for row in group}) > 1:
            conflicts += len(group)
        else:
            # Which spelling is kept must not depend on the order of the file.
            kept.append(min(group, key=lambda row: row.texts))
            duplicates += len(group) - 1
    return _Unique(tuple(kept), duplicates, conflicts)


def in_order(rows: Iterable[Example], seed: int, purpose: str = "split") -> list[Example]:
    """Sort rows by sha256(purpose, seed, text): a shuffle in which two given rows always have the same order."""
    return sorted(rows, key=lambda row: _digest(row, seed, purpose))


def take(rows: Sequence[Example], sizes: Sequence[int]) -> list[list[Example]]:
    """Return disjoint stratified groups of the given sizes, and the remaining rows as the last group.

    The order of the rows is kept. The caller checks that there are enough rows.
    """
    labels = sorted({row.label for row in rows})
    shares = [sum(row.label == label for row in rows) for label in labels]
    room = list(shares)
    groups: list[list[Example]] = []
    left = list(rows)
    for size in sizes:
        taken = quotas(size, shares, room)
        room = [free - used for free, used in zip(room, taken, strict=True)]
        group, left = _first_of_each(left, dict(zip(labels, taken, strict=True)))
        groups.append(group)
    return [*groups, left]


def quotas(size: int, shares: Sequence[int], room: Sequence[int]) -> list[int]:
    """Distribute `size` seats in proportion to `shares`, at most `room` each.

    The method is that of the largest remainder; ties go to the first.
    """
    total = sum(shares)
    seats = [min(size * share // total, free) for share, free in zip(shares, room, strict=True)]
    by_remainder = sorted(range(len(shares)), key=lambda index: -(size * shares[index] % total))
    while sum(seats) < size:
        for index in by_remainder:
            if sum(seats) < size and seats[index] < room[index]:
                seats[index] += 1
    return seats


def without(rows: Iterable[Example], others: Iterable[Example]) -> list[Example]:
    """Return the rows whose text does not occur among the others."""
    keys = {text_key(row) for row in others}
    return [row for row in rows if text_key(row) not in keys]


def _digest(row: Example, seed: int, purpose: str) -> bytes:
    return hashlib.sha256("\x00".join((purpose, str(seed), *text_key(row))).encode()).digest()


def _first_of_each(rows: Sequence[Example], wanted: dict[int, int]) -> tuple[list[Example], list[Example]]:
    group: list[Example] = []
    left: list[Example] = []
    for row in rows:
        if wanted[row.label]:
            wanted[row.label] -= 1
            group.append(row)
        else:
            left.append(row)
    return group, left
