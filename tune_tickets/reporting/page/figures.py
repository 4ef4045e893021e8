"""The table of a search for a page: titles over columns, a line per model; and the same cut into tables for paper."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tune_tickets.reporting.layout import packed
from tune_tickets.reporting.rows import BARRED, FRONT, SELECTED, Column, Group, Row, groups

MARKS = {SELECTED: "selected", FRONT: "front", BARRED: "barred"}
PAPER_WIDTH = 88
"""Characters of a table that fit on a printed page, upright."""


@dataclass(frozen=True)
class Line:
    """One model: `anchor` leads to its details, `mark` says what became of it."""

    anchor: str
    name: str
    method: str
    mark: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class FigureTable:
    """`titles` are (text, columns covered); `headers` are (text, whether the column is words)."""

    titles: tuple[tuple[str, int], ...]
    headers: tuple[tuple[str, bool], ...]
    lines: tuple[Line, ...]

    @property
    def whole_headers(self) -> list[str]:
        """Every column with the title above it, for tables with a single line of headers."""
        above = [title for title, span in self.titles for _ in range(span)]
        return [f"{title} {text}".strip() for title, (text, _) in zip(above, self.headers, strict=True)]


def figure_table(shown: Sequence[Row]) -> FigureTable:
    """All columns side by side."""
    return _table([column for group in groups(shown, "±") for column in group], shown)


def paper_tables(shown: Sequence[Row]) -> list[FigureTable]:
    """The same columns in tables that are narrow enough for paper; no number is cut."""
    name = Column(("", ""), lambda row: row.name, words=True)
    tables: list[Group] = packed(name, groups(shown, "±"), list(shown), PAPER_WIDTH)
    return [_table(columns[1:], shown) for columns in tables]


def anchor(name: str) -> str:
    """The place of a model on the page: 'trial 3' is at trial-3."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def _table(columns: Sequence[Column], shown: Sequence[Row]) -> FigureTable:
    titles: list[tuple[str, int]] = []
    for above, _ in (column.header for column in columns):
        if above or not titles:  # a title covers the columns behind it that have none
            titles.append((above, 1))
        else:
            titles[-1] = (titles[-1][0], titles[-1][1] + 1)
    return FigureTable(
        titles=tuple(titles),
        headers=tuple((column.header[1], column.words) for column in columns),
        lines=tuple(
            Line(
                anchor(row.name),
                row.name,
                row.method,
                MARKS.get(row.mark, ""),
                tuple(column.cell(row) for column in columns),
            )
            for row in shown
        ),
    )
