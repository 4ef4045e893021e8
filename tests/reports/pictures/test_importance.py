"""Importance of settings and parallel coordinates."""

import pytest

from tests.reports.pictures.conftest import make_evidence, make_measured
from tune_tickets.reports.pictures.evidence import Axis, NothingToDraw
from tune_tickets.reports.pictures.importance import UNSET, coordinates, importance_figure, parallel_figure, place


def test_the_most_important_setting_stands_at_the_top():
    figure = importance_figure({"objective": {"method.gamma": 0.25, "method.penalty_heads": 0.75}})
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["method.gamma", "method.penalty_heads"]
    assert [bar.get_width() for bar in axes.patches] == [0.25, 0.75]
    assert (axes.get_xlabel(), axes.get_title()) == ("importance, share of the variance explained", "objective")


@pytest.mark.parametrize(
    ("axis", "value", "height"),
    [
        (Axis("x"), 3.0, 0.5),
        (Axis("x", log=True), 10.0, 0.5),  # of 1 to 100
        (Axis("x", choices=("a", "b", "c")), "c", 1.0),
        (Axis("x", choices=(None, "b")), None, 0.0),
        (Axis("x", choices=("a",)), "a", 0.5),
        (Axis("x"), None, UNSET),
    ],
)
def test_the_height_of_a_value_on_its_axis(axis, value, height):
    low, high = (1.0, 100.0) if axis.log else (1.0, 5.0)
    assert place(axis, value, low, high) == pytest.approx(height)


def test_trials_pass_through_their_settings_and_figures():
    models = [
        make_measured("t0", 80.0, 30.0, params={"method.lr": 1e-4, "method.kind": "a", "method.same": 1}),
        make_measured("t1", 90.0, 20.0, params={"method.lr": 1e-2, "method.kind": "b", "method.same": 1}),
        make_measured("t2", 85.0, 25.0, params={"method.lr": 1e-3, "method.kind": "b", "method.same": 1}),
    ]
    searched = (Axis("method.lr", log=True), Axis("method.kind", choices=("a", "b")), Axis("method.same"))
    axes, trials = coordinates(make_evidence(measured=tuple(models), axes=searched))
    assert [axis.name for axis in axes] == ["method.lr", "method.kind", "clean", "aua"], "what never varies is no axis"
    figure = parallel_figure(axes, trials, front=["t1"])
    (plot,) = figure.axes
    lines = {line.get_gid(): line for line in plot.lines if line.get_gid()}
    assert list(lines["trial-t2"].get_ydata()) == pytest.approx([0.5, 1.0, 0.5, 0.5], abs=0.03)
    assert list(lines["trial-t0"].get_ydata()) == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=0.03)
    assert lines["trial-t1"].get_linewidth() > lines["trial-t0"].get_linewidth()
    assert lines["trial-t1"].get_linestyle() != lines["trial-t0"].get_linestyle()
    assert [label.get_text() for label in plot.get_xticklabels()] == [
        "lr",
        "kind",
        "clean\naccuracy, %",
        "accuracy\nunder attack, %",
    ]
    assert {"0.0001", "0.001", "0.01", "a", "b", "80", "90"} <= {text.get_text() for text in plot.texts}
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["on the front of clean and Aua", "other trials"]


def test_one_trial_is_no_comparison():
    with pytest.raises(NothingToDraw, match="fewer than two"):
        coordinates(make_evidence(measured=(make_measured("t0", 80.0, 30.0),)))
    same = tuple(make_measured(f"t{number}", 80.0, 30.0) for number in range(2))
    with pytest.raises(NothingToDraw, match="more than one value"):
        coordinates(make_evidence(measured=same))
