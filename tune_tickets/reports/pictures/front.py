"""The Pareto front: clean accuracy against accuracy under attack, sparsity as colour, 95% intervals as bars."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from tune_tickets.reports.pictures.evidence import Evidence, Measured, NothingToDraw
from tune_tickets.reports.pictures.style import DENSE, INK, RANDOM, SCALE, legend_below, panels
from tune_tickets.results.metrics import attacks_in, label, member
from tune_tickets.results.records import Confirmation, ConfirmedModel

MOST_THREATS, MOST_TASKS = 3, 4
CROWD = 15
"""With more models, the bars of most of them are faint."""
Bar = tuple[float, float]


@dataclass(frozen=True)
class FrontPoint:
    """A model by its two accuracies in %; bars are the ends of intervals."""

    name: str
    kind: str
    """'ticket', 'barred' (a ticket that may not win), 'dense' or 'random'."""
    clean: float
    aua: float
    clean_bar: Bar | None
    aua_bar: Bar | None
    sparsity: float
    selected: bool = False


def front_of(points: Iterable[FrontPoint]) -> list[FrontPoint]:
    """Return the tickets that no other ticket dominates: at least as good in both accuracies, better in one."""
    tickets = [point for point in points if point.kind == "ticket"]
    best = [one for one in tickets if not any(_beats(other, one) for other in tickets)]
    return sorted(best, key=lambda point: (point.clean, -point.aua))


def _beats(one: FrontPoint, other: FrontPoint) -> bool:
    as_good = one.clean >= other.clean and one.aua >= other.aua
    return as_good and (one.clean > other.clean or one.aua > other.aua)


def front_panels(evidence: Evidence) -> list[tuple[str, list[FrontPoint]]]:
    """Return the panels: the mean over attacks, every attack, further tasks, and the confirmation on report rows."""
    own = [model for model in evidence.measured if model.own and "clean" in model.metrics and "aua" in model.metrics]
    if not any(model.kind == "trial" for model in own):
        raise NothingToDraw("no trial was measured under attack")
    attacks = attacks_of(own)
    found = []
    for name in (["aua"] if len(attacks) > 1 else []) + attacks[:MOST_THREATS]:
        points = [_point(model, name, attacks, evidence.selected) for model in own if name in model.metrics]
        found.append((f"{_attack_title(name, attacks)}, select rows", points))
    found += _on_further_tasks(own, evidence.selected)
    if evidence.confirmation is not None:
        points = confirmed_points(evidence.confirmation, own, evidence.selected)
        if points:
            found.append((f"confirmed: report rows, {len(evidence.confirmation.seeds)} seeds", points))
    return found


def _on_further_tasks(models: Sequence[Measured], selected: str | None) -> list[tuple[str, list[FrontPoint]]]:
    """A panel per task of `transfer:`, with its own axes, because rows and classes differ."""
    found = []
    for task in list(dict.fromkeys(task for model in models for task in model.tasks))[:MOST_TASKS]:
        there = [replace(model, metrics=model.tasks[task]) for model in models if "aua" in model.tasks.get(task, {})]
        attacks = attacks_of(there)
        heading = f"task {task}: {_attack_title(attacks[0] if len(attacks) == 1 else 'aua', attacks)}, select rows"
        if there:
            found.append((heading, [_point(model, "aua", attacks, selected) for model in there]))
    return found


def _attack_title(name: str, attacks: Sequence[str]) -> str:
    """The threat model of a metric; for `aua`, whether it is a mean or a suite."""
    return member(name) or ("suite of attacks" if attacks == ["aua"] else "mean over attacks")


def attacks_of(models: Iterable[Measured]) -> list[str]:
    """The accuracies under single attacks that models have, in the order of their first use."""
    return attacks_in(name for model in models for name in model.metrics)


def _point(model: Measured, aua: str, attacks: Sequence[str], selected: str | None) -> FrontPoint:
    metrics = model.metrics
    kind = model.kind if model.kind != "trial" else "ticket" if model.feasible else "barred"
    parts = attacks if aua == "aua" else [aua]
    return FrontPoint(
        name=model.name,
        kind=kind,
        clean=metrics["clean"],
        aua=metrics[aua],
        clean_bar=_bar(model, ["clean"]),
        aua_bar=_bar(model, parts),
        sparsity=metrics.get("sparsity", 0.0),
        selected=model.kind == "trial" and model.name == selected,
    )


def _bar(model: Measured, names: Sequence[str]) -> Bar | None:
    """The interval of a metric. For a mean it is the mean of the ends, which is never too narrow."""
    ends = [(model.metrics.get(f"low/{name}"), model.metrics.get(f"high/{name}")) for name in names]
    known = [(low, high) for low, high in ends if low is not None and high is not None]
    if not known or len(known) < len(names):
        return None
    return sum(low for low, _ in known) / len(known), sum(high for _, high in known) / len(known)


def confirmed_points(confirmation: Confirmation, models: Sequence[Measured], selected: str | None) -> list[FrontPoint]:
    """Return the models of a confirmation: means over seeds with their 95% intervals, cut at 0 and 100%."""
    sparsity = {model.name: model.metrics.get("sparsity", 0.0) for model in models}
    return [
        FrontPoint(
            name=model.name,
            kind=model.kind,
            clean=model.estimates["clean"].mean,
            aua=model.estimates["aua"].mean,
            clean_bar=_within(model.estimates["clean"].interval),
            aua_bar=_within(model.estimates["aua"].interval),
            sparsity=sparsity.get(model.trial, 0.0) if model.trial is not None else 0.0,
            selected=model.kind == "ticket" and model.trial == selected,
        )
        for model in confirmation.models
        if _estimated(model)
    ]


def _within(interval: Bar | None) -> Bar | None:
    """Cut an interval at 0 and 100%: over a few seeds a t interval is much wider than that."""
    return None if interval is None else (max(interval[0], 0.0), min(interval[1], 100.0))


def _estimated(model: ConfirmedModel) -> bool:
    return {"clean", "aua"} <= set(model.estimates)


def front_figure(planes: Sequence[tuple[str, Sequence[FrontPoint]]]) -> Figure:
    """Draw one panel per plane, with one colour bar."""
    figure, axes = panels(len(planes), columns=2, width=4.2, height=3.4)
    most = max([point.sparsity for _, points in planes for point in points] + [1.0])
    coloured: PathCollection | None = None
    for each, (heading, points) in zip(axes, planes, strict=True):
        coloured = _panel(each, points, most) or coloured
        each.set(title=heading, xlabel=label("clean"), ylabel=label("aua"))
    if coloured is not None:
        figure.colorbar(coloured, ax=axes, label=label("sparsity"), shrink=0.85)
    legend_below(figure, axes, columns=3)
    return figure


def _panel(axes: Axes, points: Sequence[FrontPoint], most: float) -> PathCollection | None:
    best = front_of(points)
    if best:
        axes.plot([p.clean for p in best], [p.aua for p in best], color=INK, lw=1.0, ls="-", zorder=2, label="front")
    crowded = len(points) > CROWD
    for point in points:
        plain = point.kind in ("ticket", "barred", "random") and not point.selected and point not in best
        _bars(axes, point, faint=crowded and plain)
    coloured = None
    for kind, marker, name in (("ticket", "o", "ticket"), ("barred", "v", "ticket that is ruled out")):
        group = [point for point in points if point.kind == kind]
        if group:
            coloured = axes.scatter(
                [point.clean for point in group],
                [point.aua for point in group],
                c=[point.sparsity for point in group],
                cmap=SCALE,
                vmin=0.0,
                vmax=most,
                marker=marker,
                s=[80 if point in best else 34 for point in group],
                edgecolors=INK,
                linewidths=[1.4 if point in best else 0.5 for point in group],
                zorder=4,
                label=name,
            )
    for kind, style, name in (("dense", DENSE, "dense control"), ("random", RANDOM, "random control")):
        group = [point for point in points if point.kind == kind]
        x, y = [point.clean for point in group], [point.aua for point in group]
        if group:
            face = "none" if kind == "dense" else style.colour  # hollow, so that points below stay visible
            axes.plot(x, y, ls="", marker=style.marker, mfc=face, mec=INK, ms=9, mew=1.3, zorder=5, label=name)
    chosen = [point for point in points if point.selected]
    if chosen:
        x, y = [point.clean for point in chosen], [point.aua for point in chosen]
        axes.plot(x, y, ls="", marker="o", mfc="none", mec=INK, ms=15, mew=1.2, zorder=6, label="selected")
    _names(axes, best)
    return coloured


def _bars(axes: Axes, point: FrontPoint, faint: bool) -> None:
    style: dict[str, Any] = {"color": "#b5b5b5", "lw": 0.8, "zorder": 1}
    if faint:
        style |= {"lw": 0.5, "alpha": 0.3}
    if point.clean_bar is not None:
        axes.plot(point.clean_bar, (point.aua, point.aua), **style)
    if point.aua_bar is not None:
        axes.plot((point.clean, point.clean), point.aua_bar, **style)


def _names(axes: Axes, best: Sequence[FrontPoint]) -> None:
    """Label the members of the front; equal points share a label."""
    places: dict[tuple[float, float], list[str]] = {}
    for point in best:
        places.setdefault((point.clean, point.aua), []).append(point.name)
    for place, names in places.items():
        text = ", ".join(names[:3]) + (f" +{len(names) - 3}" if len(names) > 3 else "")
        axes.annotate(text, place, xytext=(8, 8), textcoords="offset points", fontsize=7.5, zorder=7)
