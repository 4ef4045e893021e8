"""RobustT's mask training over its epochs: R(m), and how many masks are exactly 0 or 1, by λ (its Figs. 1 and 5)."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from tune_tickets.reporting.pictures.evidence import Curve, NothingToDraw
from tune_tickets.reporting.pictures.style import legend_below, look, panels, whole_numbers

FIGURES = {
    "penalty": "R(m), mean P(mask > 0)",
    "masks_zero": "masks exactly 0, %",
    "masks_one": "masks exactly 1, %",
}
MOST = 6


def mask_trainings(curves: Sequence[Curve]) -> list[Curve]:
    """The mask trainings to be drawn, by λ: of those with one λ the first."""
    found: dict[float, Curve] = {}
    for curve in curves:
        if curve.stage == "masks" and curve.own and curve.records:
            found.setdefault(float(curve.settings["method.penalty"]), curve)
    if not found:
        raise NothingToDraw("no trial trained hard-concrete masks (method robustt)")
    return [found[penalty] for penalty in sorted(found)][:MOST]


def mask_figure(curves: Sequence[Curve]) -> Figure:
    """Three panels, a line per λ."""
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
            each.set_ylim(bottom=0.0)  # there is no share below
        whole_numbers(each)
    legend_below(figure, axes, columns=MOST)
    return figure
