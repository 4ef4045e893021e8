"""Training curves: clean accuracy and the probe per epoch of retraining, and the losses of every kind of training."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tune_tickets.reporting.pictures.evidence import Curve, Evidence, NothingToDraw
from tune_tickets.reporting.pictures.style import (
    DENSE,
    FAINT,
    Look,
    legend_below,
    look,
    panels,
    shortened,
    whole_numbers,
)

MOST_NAMED = 5
LOSSES = {
    "search": ("search of coefficients", "mini-epoch"),
    "mlm_search": ("search on masked text", "mini-epoch"),
    "masks": ("mask training (RobustT)", "epoch"),
    "srnets_masks": ("mask training (SRNets)", "look at the select rows"),
    "imp": ("IMP, each round", "epoch"),
    "srnets_imp": ("IMP (SRNets), each interval", "epoch"),
    "finetuning": ("fine-tuning before pruning", "epoch"),
    "retrain": ("retraining", "epoch"),
}
"""Stages that train, with the unit of their records."""
Named = tuple[str, Look, Curve]


def named_curves(evidence: Evidence, stage: str, needed: str) -> tuple[list[Named], list[Curve]]:
    """Of a stage the curves with a line of their own, winner and dense control first, and those left in grey."""
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
    """Clean accuracy and accuracy under the probe per epoch of retraining, side by side (RobustT Fig. 4)."""
    named, others = named_curves(evidence, "retrain", needed="probe")
    if not named:
        raise NothingToDraw("no retraining left records of its epochs")
    figure, axes = panels(2, columns=2, width=3.9)
    labels = {"clean": "clean accuracy, %", "probe": "accuracy under the PGD probe, %"}
    for each, (value, label) in zip(axes, labels.items(), strict=True):
        draw_curves(each, named, others, value, x="epoch")
        each.set(xlabel="epoch of retraining", ylabel=label)
    axes[0].set_title("select rows, unchanged")
    axes[1].set_title("PGD on the embeddings: a stand-in for Aua")
    legend_below(figure, axes, columns=2)
    return figure


def loss_figure(evidence: Evidence) -> Figure:
    """The training loss of every kind of training there was."""
    found = {stage: named_curves(evidence, stage, needed="loss") for stage in LOSSES}
    found = {stage: curves for stage, curves in found.items() if curves[0]}
    if not found:
        raise NothingToDraw("no training left records of its loss")
    figure, axes = panels(len(found), columns=3, width=3.6, height=3.6)
    for each, (stage, (named, others)) in zip(axes, found.items(), strict=True):
        title, unit = LOSSES[stage]
        draw_curves(each, named, others, "loss", x="step")
        each.set(title=title, xlabel=unit, ylabel="mean training loss")
        each.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6.5)
    return figure


def draw_curves(axes: Axes, named: Sequence[Named], others: Sequence[Curve], value: str, x: str) -> None:
    """Lines of their own above, all others below in grey under one label."""
    for name, style, curve in named:
        places, values = _points(curve, value, x)
        axes.plot(places, values, color=style.colour, ls=style.line, marker=style.marker, zorder=3, label=name)
    for number, curve in enumerate(others):
        label = f"{len(others)} more" if number == 0 else None
        places, values = _points(curve, value, x)
        axes.plot(places, values, color=FAINT, lw=0.7, alpha=0.6, zorder=1, label=label)
    whole_numbers(axes)


def _points(curve: Curve, value: str, x: str) -> tuple[list[float], list[float]]:
    known = [record for record in curve.records if value in record]
    return [record[x] for record in known], [record[value] for record in known]
