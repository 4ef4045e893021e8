"""Hyperparameters: their importance, and trials as parallel coordinates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tune_tickets.reports.pictures.evidence import Axis, Evidence, Measured, NothingToDraw
from tune_tickets.reports.pictures.style import FAINT, INK, look, new_figure, panels, shortened
from tune_tickets.results.metrics import label

MOST_AXES = 9
FIGURES = ("clean", "aua")
LONG = 13  # letters
UNSET = -0.12
"""Height of a trial on the axis of a setting that it does not have."""


def importance_figure(importances: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw a panel per value of the objective and a bar per setting, the most important at the top."""
    most = max(len(shares) for shares in importances.values())
    figure, axes = panels(len(importances), columns=2, width=5.6, height=0.3 * most + 1.1)
    for number, (each, (value, shares)) in enumerate(zip(axes, importances.items(), strict=True)):
        names = sorted(shares, key=lambda name: shares[name])
        bars = each.barh(names, [shares[name] for name in names], color=look(number).colour, height=0.62)
        each.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
        each.set_yticks(range(len(names)), [shortened(name) for name in names])
        each.set(xlim=(0.0, 1.12), xlabel="importance, share of the variance explained", ylabel="setting", title=value)
        each.grid(visible=False, axis="y")
    return figure


def place(axis: Axis, value: Any, low: float, high: float) -> float:  # noqa: ANN401 - any setting
    """Return the height of a value on its axis, 0 to 1, or `UNSET`."""
    if value is None and (axis.choices is None or None not in axis.choices):
        return UNSET
    if axis.choices is not None:
        last = len(axis.choices) - 1
        return axis.choices.index(value) / last if last else 0.5
    if high <= low:
        return 0.5
    if axis.log:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return (float(value) - low) / (high - low)


def coordinates(evidence: Evidence) -> tuple[list[Axis], list[Measured]]:
    """Return the axes to draw, settings first, and the measured trials of this search."""
    trials = [model for model in evidence.measured if model.kind == "trial" and model.own]
    if len(trials) < 2:
        raise NothingToDraw("fewer than two trials were measured")
    varied = [axis for axis in evidence.axes if len(_values(axis, trials)) > 1]
    if not varied:
        raise NothingToDraw("no searched setting has more than one value among the measured trials")
    weight = {name: sum(shares.get(name, 0.0) for shares in evidence.importances.values()) for name in _names(varied)}
    kept = sorted(_names(varied), key=lambda name: -weight[name])[:MOST_AXES]
    figures = [Axis(name) for name in FIGURES if any(name in trial.metrics for trial in trials)]
    return [axis for axis in varied if axis.name in kept] + figures, trials


def _values(axis: Axis, trials: Sequence[Measured]) -> set[str]:
    return {repr(trial.params[axis.name]) for trial in trials if axis.name in trial.params}


def _names(axes: Sequence[Axis]) -> list[str]:
    return [axis.name for axis in axes]


def parallel_figure(axes: Sequence[Axis], trials: Sequence[Measured], front: Sequence[str]) -> Figure:
    """Draw every trial as a line; those on the front are thick and dark."""
    figure = new_figure(max(6.0, 1.35 * len(axes) + 1.6), 4.6)
    plot = figure.add_subplot()
    values = [[_value(trial, axis) for axis in axes] for trial in trials]
    ends = [_ends(axis, [row[column] for row in values]) for column, axis in enumerate(axes)]
    for number, (trial, row) in enumerate(sorted(zip(trials, values, strict=True), key=lambda p: p[0].name in front)):
        heights = [place(axis, value, *end) for axis, value, end in zip(axes, row, ends, strict=True)]
        # Trials with the same choice would lie on one line, so shift each a little.
        moved = [
            height + 0.025 * math.sin(2.4 * number) if axis.choices is not None else height
            for axis, height in zip(axes, heights, strict=True)
        ]
        best = trial.name in front
        style: dict[str, Any] = {"color": INK, "lw": 1.9, "ls": "-", "zorder": 3}
        if not best:
            style = {"color": FAINT, "lw": 0.9, "ls": "--"}
        plot.plot(range(len(axes)), moved, marker="o" if best else "", ms=3.5, gid=f"trial-{trial.name}", **style)
    for column, (axis, end) in enumerate(zip(axes, ends, strict=True)):
        plot.axvline(column, color="#b5b5b5", lw=0.8, zorder=0)
        for height, text in _ticks(axis, *end):
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
            plot.text(column + 0.05, height, text, fontsize=7, va="center", zorder=4, bbox=box)
    unset = any(None in row for row in values)
    plot.set_xticks(range(len(axes)), [_heading(axis.name) for axis in axes], fontsize=7.5)
    plot.set_yticks([UNSET] if unset else [], ["not set"] if unset else [])
    plot.set(xlim=(-0.1, len(axes) - 0.45), ylim=(-0.18 if unset else -0.06, 1.06))
    plot.set(xlabel="searched settings, then metrics in %", ylabel="position in the range of each axis")
    plot.grid(False)
    shown = {"on the front of clean and Aua": Line2D([], [], color=INK, lw=1.9, marker="o", ms=3.5)} if front else {}
    shown["other trials" if front else "trials"] = Line2D([], [], color=FAINT, lw=0.9, ls="--")
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=2)
    return figure


def _heading(name: str) -> str:
    """`method.adversary.step_size` on short lines."""
    if name in FIGURES:
        return label(name).replace(" ", "\n", 1)
    lines = [part if len(part) <= LONG else part.replace("_", "_\n") for part in name.split(".")]
    return "\n".join(lines if lines[0] != "method" else lines[1:])


def _value(trial: Measured, axis: Axis) -> Any:  # noqa: ANN401 - any setting
    return trial.metrics.get(axis.name) if axis.name in FIGURES else trial.params.get(axis.name)


def _ends(axis: Axis, values: Sequence[Any]) -> tuple[float, float]:
    known = [float(value) for value in values if value is not None] if axis.choices is None else []
    return (min(known), max(known)) if known else (0.0, 1.0)


def _ticks(axis: Axis, low: float, high: float) -> list[tuple[float, str]]:
    if axis.choices is not None:
        return [(place(axis, choice, 0, 1), shortened(_shown(choice), 12)) for choice in axis.choices]
    if high <= low:
        return [(0.5, f"{low:.3g}")]
    middle = math.sqrt(low * high) if axis.log else (low + high) / 2
    return [(place(axis, value, low, high), f"{value:.3g}") for value in (low, middle, high)]


def _shown(value: Any) -> str:  # noqa: ANN401 - any setting
    return f"{value:.3g}" if isinstance(value, float) else str(value)
