"""Rows and columns on a terminal: column groups side by side as far as they fit, sentences around them.

A table wider than the console goes on below with the next groups of columns; a number is never cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from tune_tickets.reporting.rows import BARRED, FRONT, SELECTED, Column, Group, Row, groups

GAP = 2
STYLES = {SELECTED: "bold green", BARRED: "dim"}
LEGEND = (
    "obj.: objective. Clean%: accuracy on unchanged select rows. Aua%: the same under attack. Suc%: attacks that work. "
    "#Query: mean per attacked row. ood: on select rows of an out-of-distribution twin, whole and by group. "
    "cut%: share removed. params: millions, without embeddings and in total. "
    "Intervals are 95%."
)


def print_rows(console: Console, shown: list[Row]) -> None:
    """The table, what its marks mean, and its legend."""
    plus_minus = "±" if console.encoding.lower().startswith("utf") else "+-"
    name = Column(("", ""), lambda row: f"{row.mark} {row.name}", words=True)
    for columns in packed(name, groups(shown, plus_minus), shown, console.width):
        console.print()
        console.print(_Unclipped(_table(columns, shown), _width(columns, shown)), crop=False)
    for sentence in _marks(shown):
        say(console, sentence)
    say(console, LEGEND, style="dim")


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence; piped output keeps it on one line, so that it can be searched."""
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)


def _marks(shown: list[Row]) -> Iterator[str]:
    meanings = {SELECTED: "selected", FRONT: "on the front: no other trial beats it in every figure"}
    used = {row.mark for row in shown}
    if known := [f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in used]:
        yield "; ".join(known)
    for row in shown:
        if row.objections:
            barred = " may not win" if row.mark == BARRED else ""
            yield f"{row.mark} {row.name}{barred}: {'; '.join(row.objections)}"


def packed(name: Column, wanted: list[Group], shown: list[Row], limit: int) -> list[Group]:
    """Groups side by side as long as they fit; every table begins with the names."""
    tables: list[Group] = []
    for group in wanted:
        if tables and _width(tables[-1] + group, shown) <= limit:
            tables[-1] += group
        else:
            tables.append((name, *group))
    return tables


def _column_width(column: Column, shown: list[Row]) -> int:
    return max(len(text) for text in (*column.header, *(column.cell(row) for row in shown)))


def _width(columns: Group, shown: list[Row]) -> int:
    return sum(_column_width(column, shown) for column in columns) + GAP * (len(columns) - 1)


def _table(columns: Group, shown: list[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column in columns:
        justify: JustifyMethod = "left" if column.words else "right"
        width = _column_width(column, shown)
        table.add_column(Text("\n".join(column.header)), justify=justify, no_wrap=True, min_width=width)
    for row in shown:
        table.add_row(*(Text(column.cell(row)) for column in columns), style=STYLES.get(row.mark))
    return table


@dataclass(frozen=True)
class _Unclipped:
    """A table at its full width: on a very narrow console the terminal wraps its lines, rich would cut numbers."""

    table: Table
    width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.table, options.update(width=self.width))
