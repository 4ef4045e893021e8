"""The figures of SRNets: OOD accuracy over sparsity, mask training by its start, fixed and gradual sparsity."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tune_tickets.methods.srnets import MaskTraining, OodCurve
from tune_tickets.reports.pictures.evidence import Curve, Measured, NothingToDraw
from tune_tickets.reports.pictures.sparsity import Panel, Series, Spread, measured_series, series_figure, spreads
from tune_tickets.reports.pictures.style import look, panels
from tune_tickets.results.metrics import CUT, label, member, twins_in

MOST = 6
HATCHES = ("", "///", "...", "xx")
_FOLLOWED = (MaskTraining.name, OodCurve.name)


def ood_panels(models: Sequence[Measured]) -> list[Panel]:
    """Return panels of accuracy on the task and on every twin over sparsity, a line per title (Figs. 2 to 6)."""
    twins = _twins_of(models)
    if not twins:
        raise NothingToDraw("the task has no OOD twins")
    known = [model for model in models if any(twin in model.metrics for twin in twins)]
    tickets = [model for model in known if not model.whole and model.metrics.get("sparsity", 0.0) > 0]
    if not tickets:
        raise NothingToDraw("no ticket was measured")
    dense = [model for model in known if model.kind == "dense"]
    single = f"{CUT}weights"
    cut = single if any(model.metrics.get(single) for model in tickets) else "sparsity"
    return [(_heading(name), label(name), measured_series(tickets, dense, cut, name)) for name in ("clean", *twins)]


def start_of(settings: Mapping[str, Any]) -> str:
    """Say from which point of the fine-tuning a mask training started."""
    if settings.get("method.paradigm") == "pretrained":
        return "pre-trained weights (fine-tuning step 0)"
    at = settings.get("method.start.at", "end")
    if at == "steps":
        return f"fine-tuned for {settings['method.start.steps']} steps"
    return "fine-tuned until patience ran out" if at == "patience" else "fine-tuned to the end"


def start_panels(curves: Sequence[Curve]) -> tuple[str, list[Panel]]:
    """Return panels of mask trainings with the most common loss and sparsity, a line per start (Fig. 7).

    There is a panel for the task, and one for each twin that was measured.
    """
    trained = [curve for curve in curves if curve.stage == MaskTraining.name and curve.records]
    if not trained:
        raise NothingToDraw("no trial trained straight-through masks (method srnets)")
    shared = _most_common(trained)
    alike = [curve for curve in curves if curve.stage in _FOLLOWED and _loss_and_sparsity(curve) == shared]
    starts = list(dict.fromkeys(start_of(curve.settings) for curve in alike))[:MOST]
    wanted = ["clean", *twins_in(name for curve in alike for record in curve.records for name in record)]
    lines = {
        name: [
            Series(start, look(number), _looks([each for each in alike if start_of(each.settings) == start], name))
            for number, start in enumerate(starts)
        ]
        for name in wanted
    }
    heading = f"loss {shared[0]}, {100 * float(shared[1]):g}% sparse"
    return heading, [(_heading(name), label(name), [line for line in lines[name] if line.spreads]) for name in wanted]


def _looks(curves: Sequence[Curve], name: str) -> tuple[Spread, ...]:
    return spreads(
        (record["step"] * curve.settings["method.eval_interval"], record[name])
        for curve in curves
        for record in curve.records
        if name in record
    )


def start_figure(heading: str, drawn: Sequence[Panel]) -> Figure:
    """Draw the accuracy of the mask during its training."""
    figure = series_figure(drawn, "step of the mask training", columns=3)
    figure.suptitle(heading, fontsize="medium")
    return figure


def schedules(models: Sequence[Measured]) -> tuple[float, dict[str, dict[str, tuple[float, ...]]]]:
    """Return metrics of trials with fixed and with gradual sparsity, at the most common sparsity (Fig. 8)."""
    trained = [
        model
        for model in models
        if model.kind == "trial"
        and model.settings.get("method.kind") == "srnets"
        and model.settings.get("method.pruning") == "mask_training"
    ]
    by_sparsity: dict[float, list[Measured]] = {}
    for model in trained:
        by_sparsity.setdefault(float(model.settings["method.sparsity"]), []).append(model)
    both = {s: group for s, group in by_sparsity.items() if len({_gradual(model) for model in group}) == 2}
    if not both:
        raise NothingToDraw("no sparsity was tried both fixed and gradual (method.start_sparsity)")
    sparsity = max(both, key=lambda s: len(both[s]))
    names = ["clean", *_twins_of(both[sparsity])]
    return sparsity, {
        schedule: {
            name: tuple(m.metrics[name] for m in both[sparsity] if _gradual(m) == gradual and name in m.metrics)
            for name in names
        }
        for schedule, gradual in (("fixed sparsity", False), ("gradual increase", True))
    }


def schedule_figure(sparsity: float, found: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw a group of bars per metric, with one standard deviation if there are several trials."""
    figure, (axes,) = panels(1, columns=1, width=5.0, height=3.3)
    names = list(next(iter(found.values())))
    width = 0.8 / len(found)
    for number, (schedule, values) in enumerate(found.items()):
        bars = [Spread(place, tuple(values[name])) for place, name in enumerate(names) if values[name]]
        axes.bar(
            [bar.x + (number - (len(found) - 1) / 2) * width for bar in bars],
            [bar.mean for bar in bars],
            width=width,
            yerr=[bar.std for bar in bars],
            capsize=3,
            color=look(3 * number).colour,
            hatch=HATCHES[number],
            edgecolor="white",
            label=schedule,
        )
    shown = [f"{member(name)} (OOD)" if member(name) else f"{name} (ID)" for name in names]
    axes.set_xticks(range(len(names)), shown)
    axes.set(title=f"{100 * sparsity:g}% sparse", xlabel="rows", ylabel="accuracy, %")
    axes.legend()
    return figure


def _gradual(model: Measured) -> bool:
    return model.settings.get("method.start_sparsity") is not None


def _twins_of(models: Sequence[Measured]) -> list[str]:
    return twins_in(name for model in models for name in model.metrics)


def _heading(name: str) -> str:
    return f"out of distribution: {member(name)}" if member(name) else "in distribution"


def _loss_and_sparsity(curve: Curve) -> tuple[str, Any]:
    return str(curve.settings.get("method.debiasing.loss", "ce")), curve.settings["method.sparsity"]


def _most_common(found: Sequence[Curve]) -> tuple[str, Any]:
    """The loss and sparsity with the most different starts, then the most curves."""
    starts: dict[tuple[str, Any], set[str]] = {}
    for curve in found:
        starts.setdefault(_loss_and_sparsity(curve), set()).add(start_of(curve.settings))
    count = Counter(map(_loss_and_sparsity, found))
    return max(count, key=lambda each: (len(starts[each]), count[each]))
