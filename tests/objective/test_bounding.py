from itertools import pairwise

import pytest

from tune_tickets.config.objective import Objective
from tune_tickets.objective import beats, reachable
from tune_tickets.records import CleanFigures


def clean(accuracy, majority=50.0):
    return CleanFigures(rows=100, accuracy=accuracy, interval=(0.0, 100.0), majority_share=majority)


def test_the_best_values_within_reach_are_those_of_the_bounds():
    figures = clean(80.0)
    assert reachable(Objective(), figures, [50.0, 30.0], None) == pytest.approx((0.5 * 0.8 + 0.5 * 0.4,))
    assert reachable(Objective(kind="harmonic"), figures, [20.0], None) == pytest.approx((2 * 0.8 * 0.2 / 1.0,))
    assert reachable(Objective(kind="pareto"), figures, [50.0, 30.0], None) == pytest.approx((0.8, 0.4))


def test_a_near_constant_predictor_can_reach_nothing():
    assert reachable(Objective(), clean(51.0, majority=99.0), [51.0], None)[0] < 0


@pytest.mark.parametrize("kind", ["weighted", "harmonic", "pareto"])
def test_no_objective_falls_when_accuracy_under_attack_rises(kind):
    values = [reachable(Objective(kind=kind), clean(80.0), [float(aua)], None) for aua in range(0, 101, 5)]
    for lower, higher in pairwise(values):
        assert all(a <= b for a, b in zip(lower, higher, strict=True))


def test_equal_values_do_not_beat_one_another():
    assert beats((0.6,), (0.5,))
    assert not beats((0.5,), (0.5,))
    assert not beats((0.4,), (0.5,))
    assert beats((0.8, 0.4), (0.8, 0.3))
    assert not beats((0.8, 0.4), (0.7, 0.5))
