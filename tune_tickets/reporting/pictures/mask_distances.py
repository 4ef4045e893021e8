"""How far the masks of a search's mini-epochs are from each other, and where it was left (EarlyRobust Fig. 2)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from tune_tickets.reporting.pictures.evidence import MaskDistances, Matrix
from tune_tickets.reporting.pictures.style import INK, SCALE, legend_below, new_figure, shortened


def distance_figure(found: Sequence[MaskDistances]) -> Figure:
    """A column per search: heads above, neurons below, the stop as a cross of lines."""
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
    # Black is no distance, as in the paper; the scale of each matrix is its own: distances are small numbers.
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
