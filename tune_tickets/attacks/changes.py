"""What an attack did to a text, word by word: the changed pieces in their places, and a sample of them to judge."""

import random
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

from tune_tickets.attacks.rows import AttackRecord
from tune_tickets.results.records import Substitution

SAMPLE = 20
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


def sample_substitutions(records: Sequence[AttackRecord], seed: int, size: int = SAMPLE) -> tuple[Substitution, ...]:
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
