"""Where the words of an attacked text stand: in which column, and at which characters."""

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """One word: the number of its column, and its place in that column's text."""

    column: int
    start: int
    end: int


def word_spans(words: Sequence[str], texts: Sequence[str]) -> list[Span]:
    """Find the words, given in order, in the columns' texts: the search that TextAttack does when it replaces one."""
    spans = []
    column = position = 0
    for word in words:
        while (start := texts[column].find(word, position)) < 0:
            column, position = column + 1, 0
        position = start + len(word)
        spans.append(Span(column, start, position))
    return spans


def window_around(text: str, spans: Sequence[Span], index: int, size: int) -> str:
    """The part of the text with `size` words around the word `index`; the whole text if it has no more words."""
    if len(spans) <= size:
        return text
    first = min(max(index - size // 2, 0), len(spans) - size)
    return text[spans[first].start : spans[first + size - 1].end]
