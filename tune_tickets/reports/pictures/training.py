"""Training curves: clean accuracy, the probe and real attacks per epoch, and the losses of every kind of training."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tune_tickets.methods.stages import Retrain
from tune_tickets.reports.pictures.evidence import FINETUNING, Curve, Epochs, Evidence, NothingToDraw, curve_of
from tune_tickets.reports.pictures.front import MOST_THREATS
from tune_tickets.reports.pictures.style import DENSE, FAINT, Look, legend_below, look, panels, shortened, whole_numbers
from tune_tickets.results.metrics import attacks_in, label

MOST_NAMED = 5
_APART = 0.16
"""Distance between the bars of two models, in epochs."""
_FINETUNING = ("fine-tuning before pruning", "epoch")
Named = tuple[str, Look, Curve]


def named_curves(evidence: Evidence, stage: str, needed: str) -> tuple[list[Named], list[Curve]]:
    """Return the curves of a stage with their own lines, winner and dense control first, and the grey ones."""
    found = []
    for curve in evidence.curves:
        records = tuple(record for record in curve.records if needed in record)
        if curve.stage == stage and curve.own and records:
            found.append(Curve(curve.stage, curve.models, curve.title, curve.settings, records))
    order = [evidence.selected, "dense", *(model.name for model in evidence.measured)]
    found.sort(key=lambda curve: min(_place(order, model) for model in curve.models))
    named, number = [], 0
    for curve in found[:MOST_NAMED]:
        dense = "dense" in curve.models
        style = DENSE if dense else look(number)
        number += not dense
        named.append((_name(curve, evidence.selected), style, curve))
    return named, found[MOST_NAMED:]


def _place(order: Sequence[str | None], model: str) -> int:
    return order.index(model) if model in order else len(order)


def _name(curve: Curve, selected: str | None) -> str:
    models = list(curve.models)
    shown = ", ".join(models[:2]) + (f" +{len(models) - 2}" if len(models) > 2 else "")
    star = ", selected" if selected in models else ""
    return shortened(f"{shown}: {curve.title}{star}", 44)


def epoch_figure(evidence: Evidence) -> Figure:
    """Draw clean accuracy and accuracy under the probe per epoch of retraining (RobustT Fig. 4)."""
    named, others = named_curves(evidence, Retrain.name, needed="probe")
    if not named:
        raise NothingToDraw("no retraining left records of its epochs")
    figure, axes = panels(2, columns=2, width=3.9)
    labels = {"clean": label("clean"), "probe": "accuracy under the PGD probe, %"}
    for each, (value, y_label) in zip(axes, labels.items(), strict=True):
        draw_curves(each, named, others, value, x="epoch")
        each.set(xlabel="epoch of retraining", ylabel=y_label)
    axes[0].set_title("select rows, unchanged")
    axes[1].set_title("PGD on the embeddings: a stand-in for Aua")
    legend_below(figure, axes, columns=2)
    return figure


def attacked_epochs_figure(models: Sequence[Epochs], selected: str | None) -> Figure:
    """Draw clean accuracy and accuracy under every attack per epoch, with 95% intervals (RobustT Fig. 4)."""
    drawn = [one for one in models if one.metrics]
    names = ["clean", *attacks_in(name for one in drawn for each in one.metrics for name in each)[:MOST_THREATS]]
    figure, axes = panels(len(names), columns=3 if len(names) == 3 else 2, width=3.9)
    for each, name in zip(axes, names, strict=True):
        for number, one in enumerate(drawn):
            _draw_epochs(each, one, name, _APART * (number - (len(drawn) - 1) / 2), selected)
        each.set(title="select rows", xlabel="epoch of retraining", ylabel=label(name))
        whole_numbers(each)
    legend_below(figure, axes, columns=2)
    return figure


def _draw_epochs(axes: Axes, model: Epochs, name: str, place: float, selected: str | None) -> None:
    """Draw a line with bars, slightly shifted so that bars of models do not overlap."""
    style = DENSE if model.model == "dense" else look(0)
    star = ", selected" if model.model == selected else ""
    known = [(epoch, each) for epoch, each in enumerate(model.metrics, start=1) if name in each]
    x, y = [epoch + place for epoch, _ in known], [each[name] for _, each in known]
    below = [each[name] - each[f"low/{name}"] for _, each in known]
    above = [each[f"high/{name}"] - each[name] for _, each in known]
    axes.plot(
        x,
        y,
        color=style.colour,
        ls=style.line,
        marker=style.marker,
        zorder=3,
        label=f"{model.model}: {model.title}{star}",
    )
    axes.errorbar(x, y, yerr=(below, above), fmt="none", ecolor=style.colour, elinewidth=0.9, capsize=2.5, zorder=2)


def loss_figure(evidence: Evidence) -> Figure:
    """Draw the loss of every kind of training."""
    stages = sorted(dict.fromkeys(curve.stage for curve in evidence.curves), key=lambda stage: stage == Retrain.name)
    found = {stage: named_curves(evidence, stage, needed="loss") for stage in stages}
    found = {stage: curves for stage, curves in found.items() if curves[0]}
    if not found:
        raise NothingToDraw("no training left records of its loss")
    figure, axes = panels(len(found), columns=3, width=3.6, height=3.6)
    for each, (stage, (named, others)) in zip(axes, found.items(), strict=True):
        title, unit = _FINETUNING if stage == FINETUNING else curve_of(stage) or (stage, "step")
        draw_curves(each, named, others, "loss", x="step")
        each.set(title=title, xlabel=unit, ylabel="mean training loss")
        each.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6.5)
    return figure


def draw_curves(axes: Axes, named: Sequence[Named], others: Sequence[Curve], value: str, x: str) -> None:
    """Draw the named curves above, all others below in grey under one label."""
    for name, style, curve in named:
        places, values = _points(curve, value, x)
        axes.plot(places, values, color=style.colour, ls=style.line, marker=style.marker, zorder=3, label=name)
    for number, curve in enumerate(others):
        more = f"{len(others)} more" if number == 0 else None
        places, values = _points(curve, value, x)
        axes.plot(places, values, color=FAINT, lw=0.7, alpha=0.6, zorder=1, label=more)
    whole_numbers(axes)


def _points(curve: Curve, value: str, x: str) -> tuple[list[float], list[float]]:
    known = [record for record in curve.records if value in record]
    return [record[x] for record in known], [record[value] for record in known]
