"""Accuracies over sparsity, over γ (EarlyRobust Fig. 3) and over the epochs of retraining."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tune_tickets.reports.pictures.evidence import Evidence, Measured, NothingToDraw
from tune_tickets.reports.pictures.front import attacks_of
from tune_tickets.reports.pictures.style import (
    DENSE,
    RANDOM,
    Look,
    legend_below,
    look,
    panels,
    shortened,
    whole_numbers,
)
from tune_tickets.results.metrics import CUT as CUT_NAME
from tune_tickets.results.metrics import label, table
from tune_tickets.results.records import Confirmation

CUT = {row.column: row.axis for row in table() if row.name.startswith(CUT_NAME)}
"""What can be cut, with the label of its axis."""
MOST_SERIES, MOST_THREATS = 6, 3


@dataclass(frozen=True)
class Spread:
    """Values with the same x: their mean and standard deviation."""

    x: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean."""
        return mean(self.values)

    @property
    def std(self) -> float:
        """The standard deviation; 0 for a single value."""
        return stdev(self.values) if len(self.values) > 1 else 0.0


@dataclass(frozen=True)
class Series:
    """One line: a method, random tickets, or the dense control."""

    label: str
    look: Look
    spreads: tuple[Spread, ...]
    level: bool = False
    """Whether it is a horizontal line: the dense control has no x."""


Panel = tuple[str, str, Sequence[Series]]
"""Heading, label of the y axis, lines."""


def spreads(pairs: Iterable[tuple[float, float]]) -> tuple[Spread, ...]:
    """Group (x, y) pairs by x, in order."""
    found: dict[float, list[float]] = {}
    for x, y in pairs:
        found.setdefault(float(f"{x:.6g}"), []).append(y)
    return tuple(Spread(x, tuple(found[x])) for x in sorted(found))


def sparsity_panels(evidence: Evidence, kind: str) -> list[Panel]:
    """Return panels for clean accuracy and every attack on select rows, then on report rows if confirmed."""
    models = [model for model in evidence.measured if "clean" in model.metrics]
    cut = f"{CUT_NAME}{kind}"
    tickets = [model for model in models if not model.whole and model.metrics.get(cut, 0.0) > 0]
    if not tickets:
        raise NothingToDraw(f"no ticket was cut in its {kind}")
    if len({round(model.metrics[cut], 3) for model in tickets}) < 2:
        raise NothingToDraw(f"all tickets have the same share of {kind} cut")
    wanted = ["clean", *attacks_of(models)[:MOST_THREATS]]
    dense = [model for model in models if model.kind == "dense"]
    found: list[Panel] = [("select rows", label(name), measured_series(tickets, dense, cut, name)) for name in wanted]
    if evidence.confirmation is not None:
        where = {model.name: model.metrics[cut] for model in tickets if model.own}
        heading = f"confirmed: report rows, {len(evidence.confirmation.seeds)} seeds"
        confirmed = [(heading, label(name), confirmed_series(evidence.confirmation, where, name)) for name in wanted]
        found += [panel for panel in confirmed if panel[2]]
    return found


def measured_series(tickets: Sequence[Measured], dense: Sequence[Measured], cut: str, name: str) -> list[Series]:
    """Return one line per title, one for random tickets, and a level for the dense control."""
    titles = list(dict.fromkeys(model.title for model in tickets if not model.random))
    groups = [(title, [model for model in tickets if model.title == title and not model.random]) for title in titles]
    found = [
        Series(shortened(title), look(number), _over(group, cut, name))
        for number, (title, group) in enumerate(groups[:MOST_SERIES])
    ]
    found.append(Series("random tickets", RANDOM, _over([model for model in tickets if model.random], cut, name)))
    level = [model.metrics[name] for model in dense if name in model.metrics]
    if level:
        found.append(Series("dense control", DENSE, (Spread(0.0, tuple(level)),), level=True))
    return [series for series in found if series.spreads]


def _over(models: Sequence[Measured], cut: str, name: str) -> tuple[Spread, ...]:
    return spreads((model.metrics[cut], model.metrics[name]) for model in models if name in model.metrics)


def confirmed_series(confirmation: Confirmation, where: Mapping[str, float], name: str) -> list[Series]:
    """Return lines for the confirmed tickets and the random ones like them; every seed is a value."""
    looks = {
        "ticket": ("confirmed tickets", look(2)),
        "random": ("random tickets", RANDOM),
        "dense": ("dense control", DENSE),
    }
    found = []
    for kind, (name_there, style) in looks.items():
        pairs = [
            (0.0 if model.trial is None else where[model.trial], run.metrics[name])
            for model in confirmation.models
            if model.kind == kind and (model.trial is None or model.trial in where)
            for run in model.runs
            if name in run.metrics
        ]
        if pairs:
            found.append(Series(name_there, style, spreads(pairs), level=kind == "dense"))
    return found if any(not series.level for series in found) else []


def series_figure(drawn: Sequence[Panel], x_label: str, columns: int) -> Figure:
    """Draw a panel per metric. If several values share an x, a band shows one standard deviation."""
    figure, axes = panels(len(drawn), columns=columns)
    for each, (heading, y_label, lines) in zip(axes, drawn, strict=True):
        for series in lines:
            draw_series(each, series)
        each.set(title=heading, xlabel=x_label, ylabel=y_label)
        _room_around_one_place(each, lines)
        low, high = each.get_ylim()  # bands may exceed 0 and 100%, accuracies cannot
        each.set_ylim(max(low, 0.0), min(high, 100.0 + 0.03 * (100.0 - max(low, 0.0))))
    legend_below(figure, axes, columns=min(3, columns, len(drawn)))  # so that long names fit
    return figure


def _room_around_one_place(axes: Axes, lines: Sequence[Series]) -> None:
    """Set ticks and margins if all values have one x; otherwise the axis shows an arbitrary range."""
    places = {spread.x for series in lines if not series.level for spread in series.spreads}
    if len(places) == 1:
        axes.set_xticks(sorted(places))
        axes.margins(x=1.0)


def draw_series(axes: Axes, series: Series) -> None:
    """Draw a line with its band, or a level."""
    style = series.look
    if series.level:
        value = series.spreads[0]
        axes.axhline(value.mean, color=style.colour, ls=style.line, lw=1.2, label=series.label)
        if value.std:
            axes.axhspan(value.mean - value.std, value.mean + value.std, color=style.colour, alpha=0.08, lw=0)
        return
    x = [spread.x for spread in series.spreads]
    middle = [spread.mean for spread in series.spreads]
    low = [spread.mean - spread.std for spread in series.spreads]
    high = [spread.mean + spread.std for spread in series.spreads]
    above = 1.9 if style is RANDOM else 2.0  # tickets are drawn over random ones
    axes.plot(x, middle, color=style.colour, ls=style.line, marker=style.marker, label=series.label, zorder=above)
    if len(x) > 1:
        axes.fill_between(x, low, high, color=style.colour, alpha=0.15, lw=0)
    if any(spread.std for spread in series.spreads):
        # Bars too: a band at a single x is invisible, and bands cannot be told apart in black and white.
        deviation = [spread.std for spread in series.spreads]
        axes.errorbar(x, middle, yerr=deviation, fmt="none", ecolor=style.colour, elinewidth=0.9, capsize=2.5)


GAMMA, EPOCHS = "method.gamma", "retraining.epochs"


def gamma_figure(models: Sequence[Measured]) -> Figure:
    """Draw a panel per attack and a line per method: mean and standard deviation over trials with that γ."""
    x_label = "γ, mask distance below which\na mini-epoch counts as stable"
    return setting_figure(_searched(models, GAMMA), GAMMA, x_label, attacked(models))


def epochs_figure(models: Sequence[Measured]) -> Figure:
    """Draw clean accuracy and accuracy under attack over the number of epochs."""
    names = ["clean", *attacked(models)]
    drawn = setting_figure(_searched(models, EPOCHS), EPOCHS, "epochs of retraining", names)
    for axes in drawn.axes:
        whole_numbers(axes)
    return drawn


def attacked(models: Sequence[Measured]) -> list[str]:
    """The accuracies under attack that are drawn."""
    found = attacks_of(models)[:MOST_THREATS]
    if not found:
        raise NothingToDraw("no attack was run")
    return found


def setting_figure(models: Sequence[Measured], setting: str, x_label: str, names: Sequence[str]) -> Figure:
    """Draw a panel per metric and a line per title."""
    if len({_value(model, setting) for model in models}) < 2:
        raise NothingToDraw(f"{setting} has fewer than two values among the measured trials")
    drawn = [("select rows", label(name), setting_series(models, setting, name)) for name in names]
    return series_figure(drawn, x_label, columns=2)


def setting_series(models: Sequence[Measured], setting: str, name: str) -> list[Series]:
    """Return one line per title, with mean and deviation of the values at each value of the setting."""
    titles = list(dict.fromkeys(model.title for model in models))
    pairs = {
        title: [(_value(m, setting), m.metrics[name]) for m in models if m.title == title and name in m.metrics]
        for title in titles[:MOST_SERIES]
    }
    return [Series(shortened(title), look(number), spreads(pairs[title])) for number, title in enumerate(pairs)]


def _searched(models: Sequence[Measured], setting: str) -> list[Measured]:
    return [model for model in models if model.kind == "trial" and model.settings.get(setting) is not None]


def _value(model: Measured, setting: str) -> float:
    return float(model.settings[setting])
