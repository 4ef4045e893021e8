"""The front of clean accuracy and accuracy under attack."""

import pytest

from tests.reports.pictures.conftest import DENSE, RANDOM, THREAT, make_confirmation, make_evidence, make_measured
from tune_tickets.reports.pictures.evidence import Evidence, NothingToDraw
from tune_tickets.reports.pictures.front import FrontPoint, confirmed_points, front_figure, front_of, front_panels
from tune_tickets.results.records import Estimate


def point(name, clean, aua, kind="ticket", **changes):
    return FrontPoint(name, kind, clean, aua, None, None, sparsity=10.0, **changes)


def test_the_front_holds_what_no_other_ticket_beats():
    # b beats c in both; d has b's clean accuracy and less; e equals a; the dense control counts for nothing.
    points = [point("a", 90, 10), point("b", 80, 30), point("c", 79, 29), point("d", 80, 20), point("e", 90, 10)]
    points += [point("dense", 95, 40, kind="dense"), point("barred", 99, 99, kind="barred")]
    assert [one.name for one in front_of(points)] == ["b", "a", "e"]


def test_every_attack_and_what_was_confirmed_have_panels_of_their_own():
    models = (make_measured("t0", 86.0, 30.0, threats=(THREAT, "textbugger")), DENSE)
    planes = front_panels(Evidence(models, confirmation=make_confirmation({"t0": [30.0, 34.0], "dense": [12.0]})))
    assert [heading for heading, _ in planes] == [
        "mean over attacks, select rows",
        f"{THREAT}, select rows",
        "textbugger, select rows",
        "confirmed: report rows, 3 seeds",
    ]
    assert [(one.name, one.aua) for one in planes[-1][1]] == [("t0", 32.0), ("dense", 12.0)]
    assert planes[-1][1][0].aua_bar == (30.0, 34.0)
    assert planes[-1][1][0].sparsity == 30.0, "that of the trial whose ticket it is"


def test_the_bar_of_a_mean_is_the_mean_of_the_ends():
    metrics = {"low/aua/a": 10.0, "high/aua/a": 30.0, "low/aua/b": 20.0, "high/aua/b": 50.0}
    model = make_measured("t0", 86.0, 27.0, threats=("a", "b"), metrics=metrics)
    (_, (mean, *_)), *_ = front_panels(Evidence((model,)))
    assert mean.aua_bar == (15.0, 40.0)
    assert mean.clean_bar == (82.0, 90.0)


def test_a_panel_shows_points_bars_front_and_controls():
    models = (make_measured("t0", 86.0, 30.0, cut=20.0), make_measured("t1", 84.0, 34.0, cut=50.0))
    barred = make_measured("t2", 60.0, 50.0, feasible=False)
    evidence = Evidence((*models, barred, DENSE, RANDOM), selected="t1")
    figure = front_figure(front_panels(evidence))
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("clean accuracy, %", "accuracy under attack, %")
    assert bar.get_ylabel() == "parameters cut, %"
    tickets, not_winning = axes.collections
    assert tickets.get_offsets().tolist() == [[86.0, 30.0], [84.0, 34.0]]
    assert tickets.get_array().tolist() == [20.0, 50.0]
    assert not_winning.get_offsets().tolist() == [[60.0, 50.0]]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["front"] == [[84.0, 34.0], [86.0, 30.0]]
    assert lines["dense control"] == [[88.0, 12.0]]
    assert lines["random control"] == [[80.0, 14.0]]
    assert lines["selected"] == [[84.0, 34.0]]
    bars = [line.get_xydata().tolist() for line in axes.lines]
    assert [[86.0, 26.0], [86.0, 34.0]] in bars, "Aua of t0 with 4 points on either side"
    assert [[82.0, 30.0], [90.0, 30.0]] in bars, "its clean accuracy"
    assert {text.get_text() for text in axes.texts} == {"t0", "t1"}
    (legend,) = figure.legends
    shown = {text.get_text() for text in legend.get_texts()}
    assert shown == {"front", "ticket", "ticket that is ruled out", "dense control", "random control", "selected"}


def test_without_an_attack_there_is_no_front():
    unattacked = make_measured("t0", 86.0, 30.0)
    metrics = {name: value for name, value in unattacked.metrics.items() if "aua" not in name}
    with pytest.raises(NothingToDraw, match="under attack"):
        front_panels(make_evidence(measured=(make_measured("dense", 80, 10, kind="dense"),)))
    with pytest.raises(NothingToDraw, match="under attack"):
        front_panels(Evidence((type(unattacked)("t0", "trial", "x", metrics),)))


def test_intervals_over_two_seeds_end_where_accuracies_do():
    found = make_confirmation({"t0": [30.0, 90.0]})
    wide = Estimate(mean=60.0, interval=(-321.0, 441.0), seeds=2)
    models = [model.model_copy(update={"estimates": {"clean": wide, "aua": wide}}) for model in found.models]
    points = confirmed_points(found.model_copy(update={"models": tuple(models)}), (), "t0")
    assert {bar for point in points for bar in (point.clean_bar, point.aua_bar)} == {(0.0, 100.0)}


def test_every_further_task_has_a_plane_of_its_own():
    there = {name: value / 2 for name, value in make_measured("t0", 86.0, 30.0).metrics.items()}
    models = (make_measured("t0", 86.0, 30.0, tasks={"qnli": there}), DENSE)
    own, further = front_panels(Evidence(models, selected="t0"))
    assert own[0] == f"{THREAT}, select rows"
    assert further[0] == f"task qnli: {THREAT}, select rows"
    (shown,) = further[1]
    assert (shown.name, shown.clean, shown.aua, shown.aua_bar, shown.selected) == ("t0", 43.0, 15.0, (13.0, 17.0), True)
