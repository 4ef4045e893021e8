"""Accuracies against one setting: Aua over γ (EarlyRobust Fig. 3), both over the epochs of retraining."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from tune_tickets.reporting.pictures.evidence import Measured, NothingToDraw
from tune_tickets.reporting.pictures.front import threats_of
from tune_tickets.reporting.pictures.sparsity import MOST_SERIES, MOST_THREATS, Series, series_figure, spreads
from tune_tickets.reporting.pictures.style import look, shortened, whole_numbers

GAMMA, EPOCHS = "method.gamma", "retraining.epochs"


def gamma_figure(models: Sequence[Measured]) -> Figure:
    """A panel per attack, a line per method: the mean over trials with that γ, and their standard deviation."""
    label = "γ, mask distance below which\na mini-epoch counts as stable"
    return setting_figure(_searched(models, GAMMA), GAMMA, label, attacked(models))


def epochs_figure(models: Sequence[Measured]) -> Figure:
    """Models that were trained for more and for fewer epochs, clean and under real attacks."""
    figures = {"clean": "clean accuracy, %", **attacked(models)}
    drawn = setting_figure(_searched(models, EPOCHS), EPOCHS, "epochs of retraining", figures)
    for axes in drawn.axes:
        whole_numbers(axes)
    return drawn


def attacked(models: Sequence[Measured]) -> dict[str, str]:
    """The figures under attack with their labels."""
    found = {f"aua/{threat}": f"Aua, %: {threat}" for threat in threats_of(models)[:MOST_THREATS]}
    if not found:
        raise NothingToDraw("no attack was run")
    return found


def setting_figure(models: Sequence[Measured], setting: str, label: str, figures: Mapping[str, str]) -> Figure:
    """A panel per figure, a line per title."""
    if len({_value(model, setting) for model in models}) < 2:
        raise NothingToDraw(f"{setting} has fewer than two values among the measured trials")
    drawn = [("select rows", y, setting_series(models, setting, name)) for name, y in figures.items()]
    return series_figure(drawn, label, columns=2)


def setting_series(models: Sequence[Measured], setting: str, name: str) -> list[Series]:
    """One line per title: values at one place of the setting become a mean and a deviation."""
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
