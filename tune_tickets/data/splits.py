"""The splitting rule: no text twice, the label shares of the source in every split, rows in the order of a seeded hash.

Which split a row falls into depends on the seed, its own text and the rows beside it, never on their order in a file.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tune_tickets.data.rows import Example

_Key = tuple[str, ...]


def text_key(example: Example) -> _Key:
    """The texts without differences of case and white space; rows of equal key are duplicates."""
    return tuple(" ".join(text.split()).casefold() for text in example.texts)


@dataclass(frozen=True)
class _Unique:
    """Rows of which no two have the same text."""

    rows: tuple[Example, ...]
    duplicates: int
    conflicts: int


def unique(rows: Iterable[Example]) -> _Unique:
    """One row per text; a text that stands under two labels goes altogether, for neither can be trusted."""
    groups: defaultdict[_Key, list[Example]] = defaultdict(list)
    for row in rows:
        groups[text_key(row)].append(row)
    kept: list[Example] = []
    duplicates = conflicts = 0
    for group in groups.values():
        if len({row.label for row in group}) > 1:
            conflicts += len(group)
        else:
            # The spelling that is kept must not depend on the order of the file.
            kept.append(min(group, key=lambda row: row.texts))
            duplicates += len(group) - 1
    return _Unique(tuple(kept), duplicates, conflicts)


def in_order(rows: Iterable[Example], seed: int, purpose: str = "split") -> list[Example]:
    """The rows in the order of sha256(purpose, seed, text): shuffled, yet of two rows always the same one first."""
    return sorted(rows, key=lambda row: _digest(row, seed, purpose))


def take(rows: Sequence[Example], sizes: Sequence[int]) -> list[list[Example]]:
    """Disjoint stratified groups of the sizes asked for, and what is left as the last group; order is kept.

    The caller makes sure that the sizes fit.
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
    """`size` seats by largest remainder in proportion to `shares`, no more than `room` each; ties go to the first."""
    total = sum(shares)
    seats = [min(size * share // total, free) for share, free in zip(shares, room, strict=True)]
    by_remainder = sorted(range(len(shares)), key=lambda index: -(size * shares[index] % total))
    while sum(seats) < size:
        for index in by_remainder:
            if sum(seats) < size and seats[index] < room[index]:
                seats[index] += 1
    return seats


def without(rows: Iterable[Example], others: Iterable[Example]) -> list[Example]:
    """The rows whose text is not among that of the others."""
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
