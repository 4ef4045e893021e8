"""Masks: distances between mini-epochs, mask training, and what survives in every layer."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from tune_tickets.methods.robustt import Masks
from tune_tickets.reports.pictures.evidence import Curve, MaskDistances, Matrix, NothingToDraw, Pattern
from tune_tickets.reports.pictures.style import (
    INK,
    SCALE,
    legend_below,
    look,
    new_figure,
    panels,
    shortened,
    whole_numbers,
)


def distance_figure(found: Sequence[MaskDistances]) -> Figure:
    """Draw a column per search: heads above, neurons below, the stop as dashed lines."""
    figure = new_figure(3.0 * len(found) + 1.4, 5.8)
    drawn: list[Axes] = []
    for number, one in enumerate(found):
        for row, (kind, matrix) in enumerate((("heads", one.heads), ("neurons", one.neurons))):
            axes = figure.add_subplot(2, len(found), row * len(found) + number + 1)
            image = _matrix(axes, matrix, one.stop)
            figure.colorbar(image, ax=axes, label="normalised mask distance", shrink=0.8)
            title = f"{shortened(one.model)}: {shortened(one.title, 24)}\n{kind}, {_rule(one)}"
            axes.set_title(title if row == 0 else kind, fontsize=8.5)
            unit = f"mini-epoch ({one.mini_epoch:g} epoch each)"
            axes.set(xlabel=unit, ylabel=unit)
            drawn.append(axes)
    legend_below(figure, drawn)
    return figure


def _rule(one: MaskDistances) -> str:
    return f"γ = {one.gamma:g}" + ("" if one.converged else ", not reached")


def _matrix(axes: Axes, matrix: Matrix, stop: int) -> AxesImage:
    last = len(matrix) + 0.5
    # Dark is no distance, as in the paper. Each matrix has its own scale, because distances are small.
    most = max(max(row) for row in matrix) or 1.0
    image = axes.imshow(
        matrix, cmap=SCALE, vmin=0.0, vmax=most, origin="lower", extent=(0.5, last, 0.5, last), interpolation="nearest"
    )
    axes.grid(False)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for draw in (axes.axvline, axes.axhline):
        draw(stop, color="white", lw=2.6)
    axes.axvline(stop, color=INK, lw=1.2, ls="--", label="stop: the ticket is drawn here")
    axes.axhline(stop, color=INK, lw=1.2, ls="--")
    return image


FIGURES = {
    "penalty": "R(m), mean P(mask > 0)",
    "masks_zero": "masks exactly 0, %",
    "masks_one": "masks exactly 1, %",
}
MOST = 6


def mask_trainings(curves: Sequence[Curve]) -> list[Curve]:
    """Return the mask trainings to draw, sorted by λ, the first one for each λ."""
    found: dict[float, Curve] = {}
    for curve in curves:
        if curve.stage == Masks.name and curve.own and curve.records:
            found.setdefault(float(curve.settings["method.penalty"]), curve)
    if not found:
        raise NothingToDraw("no trial trained hard-concrete masks (method robustt)")
    return [found[penalty] for penalty in sorted(found)][:MOST]


def mask_figure(curves: Sequence[Curve]) -> Figure:
    """Draw three panels with a line per λ."""
    figure, axes = panels(len(FIGURES), columns=3, width=3.2)
    for each, (name, label) in zip(axes, FIGURES.items(), strict=True):
        for number, curve in enumerate(curves):
            style = look(number)
            epochs = [record["step"] for record in curve.records]
            values = [record[name] for record in curve.records]
            line = f"λ = {curve.settings['method.penalty']:g}"
            each.plot(epochs, values, color=style.colour, ls=style.line, marker=style.marker, label=line)
        each.set(xlabel="epoch of the mask training", ylabel=label)
        if name != "penalty":
            each.set_ylim(bottom=0.0)  # shares are not negative
        whole_numbers(each)
    legend_below(figure, axes, columns=MOST)
    return figure


MOST_WRITTEN = 16
"""Up to this many rows and columns, every cell shows its number."""
WIDE = 24
"""Number of heads that fit side by side."""


def pattern_figure(patterns: Sequence[Pattern]) -> Figure:
    """Draw heads and MLP of every pattern side by side (EarlyRobust Fig. 5, RobustT Fig. 3)."""
    heads, layers = len(patterns[0].heads[0]), len(patterns[0].heads)
    columns = min(max(1, min(3, WIDE // heads)), len(patterns))
    rows = -(-len(patterns) // columns)
    wide = max(2.4, 0.33 * heads + 1.5)
    figure = new_figure(wide * columns + 1.2, max(1.9, 0.27 * layers + 1.2) * rows + 0.2)
    widths = [part for _ in range(columns) for part in (max(heads, 3), 1.4)]
    grid = figure.add_gridspec(rows, 2 * columns, width_ratios=widths)
    drawn: list[Axes] = []
    image: AxesImage | None = None
    for number, pattern in enumerate(patterns):
        row, column = divmod(number, columns)
        left = figure.add_subplot(grid[row, 2 * column])
        right = figure.add_subplot(grid[row, 2 * column + 1])
        cells(left, pattern.heads)
        image = cells(right, tuple((share,) for share in pattern.mlp))
        seeds = f", mean of {pattern.tickets} seeds" if pattern.tickets > 1 else ""
        left.set_title(f"{shortened(pattern.name)}{seeds}\n{shortened(pattern.title)}", loc="left", fontsize=8.5)
        _label(left, right, pattern)
        drawn += [left, right]
    if image is not None:
        figure.colorbar(image, ax=drawn, label="surviving, %", shrink=0.9)
    return figure


def cells(axes: Axes, values: Matrix, most: float = 100.0) -> AxesImage:
    """Draw a heat map with the first row at the bottom, with numbers in the cells if there is room."""
    image = axes.imshow(values, cmap=SCALE, vmin=0.0, vmax=most, origin="lower", aspect="auto")
    axes.grid(False)
    if len(values) <= MOST_WRITTEN and len(values[0]) <= MOST_WRITTEN:
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                colour = "black" if value > 0.6 * most else "white"
                axes.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=6.5, color=colour)
    return image


def _label(left: Axes, right: Axes, pattern: Pattern) -> None:
    heads, layers = len(pattern.heads[0]), len(pattern.heads)
    step = max(1, -(-heads // 16))
    left.set_xticks(range(0, heads, step), [str(head + 1) for head in range(0, heads, step)])
    left.set_yticks(range(layers), [str(layer + 1) for layer in range(layers)])
    right.set_xticks([0], ["MLP"])
    right.set_yticks(range(layers), [""] * layers)
    left.set(xlabel="attention head" if heads > 1 else "all heads", ylabel="layer")
    right.set_xlabel("neurons" if pattern.structured else "weights")
    for axes in (left, right):
        axes.tick_params(length=2, labelsize=7.5)
