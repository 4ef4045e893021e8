from itertools import pairwise

import pytest

from tune_tickets.config.objective import Constraint, Objective
from tune_tickets.results.objective import beats, falling, reachable


def known(clean, *aua, majority=50.0, **more):
    """The metrics of a ticket and the most its accuracy under each attack can be."""
    attacked = {f"aua/t{index}": most for index, most in enumerate(aua)}
    return {"clean": clean, "majority_share": majority, "aua": sum(aua) / len(aua), **attacked, **more}


def test_the_best_values_within_reach_are_those_of_the_bounds():
    figures = known(80.0, 50.0, 30.0)
    assert reachable(Objective(), figures, None) == pytest.approx((0.5 * 0.8 + 0.5 * 0.4,))
    harmonic = Objective(kind="harmonic")
    assert reachable(harmonic, known(80.0, 20.0), None) == pytest.approx((2 * 0.8 * 0.2 / 1.0,))
    assert reachable(Objective(kind="pareto"), figures, None) == pytest.approx((0.8, 0.4))


def test_a_near_constant_predictor_can_reach_nothing():
    assert reachable(Objective(), known(51.0, 51.0, majority=99.0), None)[0] < 0


OBJECTIVES = (
    Objective(),
    Objective(kind="harmonic"),
    Objective(kind="pareto"),
    Objective(weights={"aua/t0": 0.7, "sparsity": 0.2, "flops": 0.1}),
    Objective(kind="pareto", metrics=("aua/t0", "flops", "clean")),
    Objective(kind="constrained", constraints=(Constraint(metric="aua/t0", at_least=40.0),)),
    Objective(kind="constrained", maximise="clean", constraints=(Constraint(metric="flops", at_most=60.0),)),
)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_objective_falls_when_accuracy_under_attack_rises(objective):
    metrics = [known(80.0, float(aua), sparsity=30.0, flops=70.0) for aua in range(0, 101, 5)]
    values = [reachable(objective, each, None) for each in metrics]
    for lower, higher in pairwise(values):
        assert all(a <= b for a, b in zip(lower, higher, strict=True))


def test_equal_values_do_not_beat_one_another():
    assert beats((0.6,), (0.5,))
    assert not beats((0.5,), (0.5,))
    assert not beats((0.4,), (0.5,))
    assert beats((0.8, 0.4), (0.8, 0.3))
    assert not beats((0.8, 0.4), (0.7, 0.5))


def test_what_is_not_measured_yet_is_taken_at_its_best():
    objective = Objective(weights={"aua": 1.0, "ood": 1.0, "flops": 2.0})
    assert reachable(objective, known(80.0, 40.0), None) == pytest.approx(((0.4 + 1.0 + 2.0) / 4,))


def test_an_upper_bound_on_what_an_attack_shows_allows_no_early_exit():
    bounded = [Constraint(metric=name, at_most=50.0) for name in ("aua", "ood/twin", "flops", "sparsity")]
    assert falling(Objective(constraints=tuple(bounded))) == ("aua <= 50", "ood/twin <= 50")
    assert falling(Objective(constraints=(Constraint(metric="aua", at_least=50.0),))) == ()
