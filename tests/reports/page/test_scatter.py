"""Points by hand: their positions, their names, and the line that joins them."""

import pytest

from tests.reports.conftest import make_attack, make_outcome, make_summary, make_trial
from tune_tickets.config.objective import Objective
from tune_tickets.reports.page.figures import BOTTOM, COLOURS, LEFT, RIGHT, TOP, axes, colours, scatter
from tune_tickets.reports.table import rows


def measured(number, clean, aua, **changes):
    return make_trial(number, outcome=make_outcome(clean, attacks=[make_attack(aua=aua)]), **changes)


def drawn(trials, objective=None, **changes):
    summary = make_summary(trials, **({"controls": ()} | changes))
    return scatter(summary, objective or Objective(), rows(summary, 100))


def test_points_stand_by_their_figures():
    found = drawn([measured(0, 80.0, 20.0), measured(1, 90.0, 40.0)])
    # 80 to 90 with a margin of a point either side, 20 to 40 with 1.6: ticks in steps of 2 and 5.
    first, second = sorted(found.points, key=lambda point: point.name)
    assert (first.x, second.x) == (
        pytest.approx(LEFT + (RIGHT - LEFT) * 1 / 12, abs=0.1),
        pytest.approx(LEFT + (RIGHT - LEFT) * 11 / 12, abs=0.1),
    )
    assert (first.y, second.y) == (
        pytest.approx(BOTTOM + (TOP - BOTTOM) * 1.6 / 23.2, abs=0.1),
        pytest.approx(BOTTOM + (TOP - BOTTOM) * 21.6 / 23.2, abs=0.1),
    )
    assert [text for _, text in found.x_ticks] == ["80", "82", "84", "86", "88", "90"]
    assert [text for _, text in found.y_ticks] == ["20", "25", "30", "35", "40"]
    assert first.said == "clean 80.0, aua 20.0"


def test_an_axis_of_percentages_ends_at_a_hundred():
    found = drawn([measured(0, 60.0, 0.0), measured(1, 100.0, 100.0)])
    assert [text for _, text in found.y_ticks] == ["0", "20", "40", "60", "80", "100"]
    assert max(float(text) for _, text in found.x_ticks) == 100


def test_an_axis_of_counts_goes_on_beyond_a_hundred():
    pareto = Objective(kind="pareto", metrics=("clean", "queries/textfooler/minilm"))
    attacks = [make_attack().model_copy(update={"queries": queries}) for queries in (140.0, 260.0)]
    trials = [make_trial(number, outcome=make_outcome(attacks=[attack])) for number, attack in enumerate(attacks)]
    assert [text for _, text in drawn(trials, pareto).y_ticks] == ["150", "200", "250"]


def test_one_point_alone_has_room_around_it():
    (point,) = drawn([measured(0, 50.0, 0.0)]).points
    assert LEFT < point.x < RIGHT
    assert TOP < point.y < BOTTOM


def test_the_front_is_joined_from_left_to_right():
    trials = [measured(0, 90.0, 10.0), measured(1, 80.0, 30.0), measured(2, 70.0, 5.0)]
    found = drawn(trials, front=("t0", "t1"))
    places = {point.name: (point.x, point.y) for point in found.points}
    assert found.front == (places["trial 1"], places["trial 0"])
    assert {point.name for point in found.points if point.front} == {"trial 0", "trial 1"}


def test_a_front_in_three_figures_is_no_line():
    pareto = Objective(kind="pareto", metrics=("clean", "aua", "sparsity"))
    found = drawn([measured(0, 90.0, 10.0), measured(1, 80.0, 30.0)], pareto, front=("t0", "t1"))
    assert (found.front, [point.front for point in found.points]) == ((), [True, True])


def test_controls_and_tickets_that_may_not_win_are_told_apart():
    summary = make_summary([measured(0, 80.0, 20.0), measured(1, 60.0, 55.0, feasible=False)])
    found = scatter(summary, Objective(), rows(summary, 9))
    assert [(point.name, point.mark, point.control) for point in found.points] == [
        ("trial 1", "barred", False),
        ("dense", "", True),
        ("trial 0", "selected", False),
    ]
    assert len(found.whiskers) == 2


def test_a_mean_over_several_threat_models_has_no_interval():
    both = make_outcome(80.0, attacks=[make_attack(), make_attack("textbugger/minilm")])
    assert len(drawn([make_trial(0, outcome=both)]).whiskers) == 1


def test_the_axes_are_those_of_the_front():
    pareto = Objective(kind="pareto", metrics=("sparsity", "clean", "aua"))
    assert axes(pareto, [{"clean": 1.0}]) == ("sparsity", "clean")
    assert axes(Objective(), [{"clean": 1.0, "aua": 2.0}]) == ("clean", "aua")
    assert axes(Objective(), [{"clean": 1.0}]) == ("sparsity", "clean")
    assert drawn([], selected=None) is None


def test_methods_have_a_colour_each_until_there_are_too_many():
    assert colours(["b", "a", "b"]) == {"b": 0, "a": 1}
    assert colours(map(str, range(COLOURS + 1)))[str(COLOURS)] == 0
