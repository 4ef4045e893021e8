"""Sparsity patterns: what survives in the heads and the MLP of every layer (EarlyRobust Fig. 5, RobustT Fig. 3)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from tune_tickets.reporting.pictures.evidence import Matrix, Pattern
from tune_tickets.reporting.pictures.style import SCALE, new_figure, shortened

MOST_WRITTEN = 16
"""Up to so many rows or columns every cell has its number written in it."""
WIDE = 24
"""Heads that fit side by side."""


def pattern_figure(patterns: Sequence[Pattern]) -> Figure:
    """Beside each other, for every pattern its heads and its MLP; one colour bar for all."""
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
    """A heat map, the first row at the bottom; numbers in the cells where there is room."""
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
