"""Attacked texts with their changes marked: old words struck through, new ones bold and underlined."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tune_tickets.reports.attacked import harmless, marked_text
from tune_tickets.reports.pictures.evidence import Example
from tune_tickets.reports.pictures.style import INK, new_figure

COLUMNS = 104
"""Letters in a line."""
MOST_LINES = 7
"""Of one text."""
_SIZE = 8.0
_LETTER = 0.602 * _SIZE / 72  # inches: DejaVu Sans Mono is 0.602 em wide
_LINE = 0.185
OLD, NEW = "#a3195b", "#0b1d51"


class Run(NamedTuple):
    """Consecutive letters of one kind."""

    text: str
    kind: str
    """'same', 'old' or 'new'."""


class Word(NamedTuple):
    """The position of a run: line and column of its first letter."""

    line: int
    column: int
    run: Run


def runs(example: Example) -> list[Run]:
    """Split a text into runs, with control characters escaped and long unchanged parts cut."""
    marked = marked_text([_visible(old, new) for old, new in example.pieces], colour=True)
    kinds = ["same"] * len(marked.plain)
    for span in marked.spans:
        kind = "old" if "strike" in str(span.style) else "new"
        kinds[span.start : span.end] = [kind] * (span.end - span.start)
    found: list[Run] = []
    for letter, kind in zip(marked.plain, kinds, strict=True):
        if found and found[-1].kind == kind:
            found[-1] = Run(found[-1].text + letter, kind)
        else:
            found.append(Run(letter, kind))
    return found


def _visible(old: str, new: str) -> tuple[str, str]:
    """Name letters that only look like the old ones."""
    strange = [f"U+{ord(letter):04X}" for letter in new if not letter.isascii()]
    if not strange or not old.isascii():
        return old, new
    return old, f"{new} ({' '.join(strange[:3])})"


def layout(parts: Sequence[Run], columns: int = COLUMNS) -> list[Word]:
    """Break runs into lines at spaces; a word longer than a line is broken anywhere."""
    words: list[Word] = []
    line = column = 0
    for part in parts:
        for token in _tokens(part.text, columns):
            width = _width(token)
            if column and column + width > columns:
                line, column = line + 1, 0
                if token.isspace():
                    continue
            words.append(Word(line, column, Run(token, part.kind)))
            column += width
    return words


def _tokens(text: str, columns: int) -> Iterator[str]:
    """Words and the spaces between them."""
    start = 0
    for index in range(1, len(text) + 1):
        full = index - start >= columns
        if index == len(text) or full or text[index].isspace() != text[start].isspace():
            yield text[start:index]
            start = index


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def example_figure(examples: Sequence[Example]) -> Figure:
    """Draw the texts below each other, each under a line with the attack and its result."""
    texts = [layout(runs(example)) for example in examples]
    heights = [min(MOST_LINES, max((word.line for word in words), default=0) + 1) for words in texts]
    lines = sum(heights) + 1.9 * len(examples) + 0.3
    figure = new_figure(COLUMNS * _LETTER + 0.6, lines * _LINE + 0.8)
    figure.set_layout_engine("none")  # fixed line height
    edge = 0.3
    axes = figure.add_axes(
        (
            edge / figure.get_figwidth(),
            0.1 / figure.get_figheight(),
            COLUMNS * _LETTER / figure.get_figwidth(),
            lines * _LINE / figure.get_figheight(),
        )
    )
    axes.set(xlim=(0, COLUMNS), ylim=(lines, 0.0))
    axes.set_axis_off()
    top = 0.6
    for example, words, height in zip(examples, texts, heights, strict=True):
        axes.text(0, top, _heading(example), fontsize=_SIZE, color=INK, weight="bold", va="center")
        for word in words:
            _write(axes, word, top + 1.1, height)
        axes.plot((0, COLUMNS), (top + height + 0.75,) * 2, color="#dddddd", lw=0.6)
        top += height + 1.9
    axes.set_title("attacked texts: old words struck through, new words bold and underlined", loc="left")
    return figure


def _heading(example: Example) -> str:
    end = f"{example.before} → {example.after}" if example.successful else f"still {example.before}"
    result = "attack succeeded" if example.successful else "attack failed"
    return harmless(f"{example.model}, {example.threat}, row {example.row}: {result}, {end}")


def _write(axes: Axes, word: Word, top: float, height: int) -> None:
    if word.line >= height:
        return
    text, kind = word.run
    cut = word.line == height - 1 and height == MOST_LINES and word.column + len(text) > COLUMNS - 2
    shown = "…" if cut else text
    y = top + word.line
    if shown.isspace():
        return
    colour = {"same": INK, "old": OLD, "new": NEW}[kind]
    weight = "bold" if kind == "new" else "normal"
    font = ["DejaVu Sans Mono", "monospace"]
    axes.text(word.column, y, shown, fontsize=_SIZE, color=colour, weight=weight, family=font, va="center")
    ends = (word.column, word.column + _width(shown))
    if kind == "old":
        axes.plot(ends, (y + 0.02,) * 2, color=colour, lw=1.1)
    elif kind == "new":
        axes.plot(ends, (y + 0.4,) * 2, color=colour, lw=1.1)
