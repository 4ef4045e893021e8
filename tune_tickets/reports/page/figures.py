"""Tables of models, and the interactive scatter plot: points, ticks and the front in pixels."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tune_tickets.config.objective import Objective
from tune_tickets.reports.table import BARRED, FRONT, SELECTED, Column, Group, Row, groups, packed
from tune_tickets.results.metrics import attacks_in, label
from tune_tickets.results.records import Summary

MARKS = {SELECTED: "selected", FRONT: "front", BARRED: "barred"}
PAPER_WIDTH = 88
"""Characters that fit on a printed page in portrait."""


@dataclass(frozen=True)
class Line:
    """One model: `anchor` links to its details, `mark` says whether it is selected, on the front or barred."""

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
        """The header of each column with its title, for tables with a single header line."""
        above = [title for title, span in self.titles for _ in range(span)]
        return [f"{title} {text}".strip() for title, (text, _) in zip(above, self.headers, strict=True)]


def figure_table(shown: Sequence[Row]) -> FigureTable:
    """Return one table with all columns."""
    return _table([column for group in groups(shown, "±") for column in group], shown)


def paper_tables(shown: Sequence[Row]) -> list[FigureTable]:
    """Return the same columns in tables that are narrow enough for paper."""
    name = Column(("", ""), lambda row: row.name, words=True)
    tables: list[Group] = packed(name, groups(shown, "±"), list(shown), PAPER_WIDTH)
    return [_table(columns[1:], shown) for columns in tables]


def anchor(name: str) -> str:
    """Return the anchor of a model on the page: 'trial-3' for 'trial 3'."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def _table(columns: Sequence[Column], shown: Sequence[Row]) -> FigureTable:
    titles: list[tuple[str, int]] = []
    for above, _ in (column.header for column in columns):
        if above or not titles:  # a title also covers the following columns without a title
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


WIDTH, HEIGHT = 480, 360
LEFT, RIGHT, TOP, BOTTOM = 52, 464, 14, 312
COLOURS = 10
TICKS = 6
MARGIN = 0.08
_ORDER = ("barred", "", "front", "selected")
"""Later points are drawn over earlier ones."""


@dataclass(frozen=True)
class Point:
    """One model; `front` if no other trial beats it in every metric of the objective."""

    anchor: str
    name: str
    method: str
    mark: str
    control: bool
    front: bool
    x: float
    y: float
    said: str


@dataclass(frozen=True)
class Scatter:
    """`x_ticks` and `y_ticks` are (pixel, text); `front` and `whiskers` are points of lines.

    A front of three or more metrics is not drawn as a line.
    """

    x_name: str
    y_name: str
    points: tuple[Point, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    front: tuple[tuple[float, float], ...]
    whiskers: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    percent: bool

    def at(self, value: float) -> float:
        """The position of a value in pixels."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Ticks at round values; for percentages only from 0 to 100."""
        rough = (self.high - self.low) / TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        values = [index * step for index in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return tuple((self.at(value), f"{value:.10g}") for value in values if 0 <= value <= 100 or not self.percent)


def scatter(summary: Summary, objective: Objective, shown: Sequence[Row]) -> Scatter | None:
    """Plot the two metrics of the front against each other; None if no model has both."""
    metrics = {row.name: row.outcome.metrics() for row in shown}
    x_name, y_name = axes(objective, metrics.values())
    drawn = [row for row in shown if x_name in metrics[row.name] and y_name in metrics[row.name]]
    if not drawn:
        return None
    x = _axis([metrics[row.name][x_name] for row in drawn], LEFT, RIGHT)
    y = _axis([metrics[row.name][y_name] for row in drawn], BOTTOM, TOP)
    trials = {f"trial {trial.number}": trial.id for trial in summary.trials}
    solid = objective.kind == "pareto" and len(objective.metrics) > 2
    points = tuple(
        Point(
            anchor=anchor(row.name),
            name=row.name,
            method=row.method,
            mark=MARKS.get(row.mark, ""),
            control=row.name not in trials,
            front=trials.get(row.name) in summary.front,
            x=x.at(metrics[row.name][x_name]),
            y=y.at(metrics[row.name][y_name]),
            said=f"{x_name} {metrics[row.name][x_name]:.1f}, {y_name} {metrics[row.name][y_name]:.1f}",
        )
        for row in sorted(drawn, key=lambda row: _ORDER.index(MARKS.get(row.mark, "")))
    )
    return Scatter(
        x_name=label(x_name),
        y_name=label(y_name),
        points=points,
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        front=tuple(sorted({(point.x, point.y) for point in points if point.front and not solid})),
        whiskers=tuple(
            line for row in drawn if MARKS.get(row.mark) == "selected"
            for line in _whiskers(metrics[row.name], x_name, y_name, x, y)
        ),
    )  # fmt: skip


def axes(objective: Objective, metrics: Iterable[Mapping[str, float]]) -> tuple[str, str]:
    """Choose the axes: the first two of a Pareto vector, or clean accuracy and Aua, or sparsity and accuracy."""
    if objective.kind == "pareto":
        return objective.metrics[0], objective.metrics[1]
    return ("clean", "aua") if any("aua" in each for each in metrics) else ("sparsity", "clean")


def colours(methods: Iterable[str]) -> dict[str, int]:
    """Give each method a colour of the page, in order of appearance; colours repeat if there are too many."""
    return {method: index % COLOURS for index, method in enumerate(dict.fromkeys(methods))}


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    """An axis with a margin around all values."""
    low, high = min(values), max(values)
    margin = max((high - low) * MARGIN, 1.0)
    return _Axis(low - margin, high + margin, start, end, percent=low >= 0 and high <= 100)


def _alone(known: Mapping[str, float]) -> dict[str, float]:
    """The interval of the mean over threat models, if there is only one of them."""
    attacks = attacks_in(known)
    if len(attacks) != 1 or f"low/{attacks[0]}" not in known:
        return {}
    return {f"{end}/aua": known[f"{end}/{attacks[0]}"] for end in ("low", "high")}


def _whiskers(
    known: Mapping[str, float], x_name: str, y_name: str, x: _Axis, y: _Axis
) -> list[tuple[float, float, float, float]]:
    """The 95% intervals of the selected ticket, cut at the edge of the plot."""
    known = {**_alone(known), **known}
    here_x, here_y = x.at(known[x_name]), y.at(known[y_name])
    lines = []
    if f"low/{x_name}" in known:
        ends = [min(max(x.at(known[f"{end}/{x_name}"]), LEFT), RIGHT) for end in ("low", "high")]
        lines.append((ends[0], here_y, ends[1], here_y))
    if f"low/{y_name}" in known:
        ends = [min(max(y.at(known[f"{end}/{y_name}"]), TOP), BOTTOM) for end in ("low", "high")]
        lines.append((here_x, ends[0], here_x, ends[1]))
    return lines
