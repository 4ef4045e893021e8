"""The objective: what Optuna is told, who may win, who wins."""

import pytest

from tune_tickets.config.objective import Objective
from tune_tickets.objective import front, judge, ranked
from tune_tickets.records import AttackFigures, CleanFigures, Outcome, Sparsity, TrialRecord


def outcome(clean: float, *auas: float, majority: float = 55.0, parameters: int = 10) -> Outcome:
    attacks = tuple(
        AttackFigures(
            threat=f"threat{index}",
            fingerprint="f",
            rows=100,
            clean=clean,
            accuracy_under_attack=aua,
            interval=(0.0, 100.0),
            success_rate=0.0,
            queries=1.0,
            words_changed=0.0,
            similarity=None,
            skipped=0,
            survived=(),
        )
        for index, aua in enumerate(auas)
    )
    return Outcome(
        clean=CleanFigures(rows=100, accuracy=clean, interval=(0.0, 100.0), majority_share=majority),
        attacks=attacks,
        sparsity=Sparsity(heads=0, neurons=0, parameters=parameters, parameters_total=20, parameters_dense=15),
        retrain_digest="d",
    )


def trial(
    number: int, measured: Outcome, objective: Objective | None = None, dense: Outcome | None = None
) -> TrialRecord:
    verdict = judge(objective or Objective(), measured, dense)
    return TrialRecord(
        id=f"t{number}",
        number=number,
        status="complete",
        params={},
        metrics=measured.metrics(),
        values=verdict.values,
        feasible=verdict.feasible,
        outcome=measured,
    )


DENSE = outcome(84.0, 23.0)


def test_the_default_is_the_mean_of_clean_and_mean_accuracy_under_attack():
    verdict = judge(Objective(), outcome(84.0, 20.0, 40.0), DENSE)
    assert verdict.values == (pytest.approx(0.5 * 0.84 + 0.5 * 0.30),)
    assert verdict.feasible


def test_harmonic_and_pareto_values():
    measured = outcome(80.0, 40.0)
    harmonic = Objective(kind="harmonic", floor_points=None)
    assert judge(harmonic, measured, None).values == (pytest.approx(2 * 0.8 * 0.4 / 1.2),)
    assert judge(Objective(kind="pareto"), outcome(84.0, 40.0), DENSE).values == (0.84, 0.40)


@pytest.mark.parametrize("kind", ["weighted", "harmonic", "pareto"])
def test_constant_and_collapsed_models_never_win_against_an_ordinary_one(kind):
    objective = Objective(kind=kind)
    ordinary = trial(0, outcome(84.0, 23.0), objective, DENSE)
    constant = trial(1, outcome(50.0, 50.0, majority=100.0), objective, DENSE)
    collapsed = trial(2, outcome(57.0, 55.0, majority=90.0), objective, DENSE)
    assert ranked([constant, collapsed, ordinary]) == [ordinary]
    assert all(value < min(ordinary.values) for bad in (constant, collapsed) for value in bad.values)


def test_two_points_below_the_dense_control_is_the_limit():
    assert judge(Objective(), outcome(82.0, 60.0), DENSE).feasible
    below = judge(Objective(), outcome(81.9, 60.0), DENSE)
    assert not below.feasible
    assert "below the floor by 0.1 points" in below.objections[0]


def test_the_nearer_the_floor_the_better_the_value():
    near, far = (judge(Objective(), outcome(clean, 60.0), DENSE).values[0] for clean in (80.0, 60.0))
    assert far < near < 0


def test_a_near_constant_predictor_is_flagged_even_when_the_control_collapsed_too():
    verdict = judge(Objective(), outcome(50.0, 50.0, majority=97.0), outcome(50.0, 50.0))
    assert "near-constant" in verdict.objections[0]


def test_an_absolute_floor_needs_no_control():
    objective = Objective(floor_points=None, floor_clean=80.0)
    assert not judge(objective, outcome(79.0, 60.0), None).feasible
    assert judge(objective, outcome(80.0, 1.0), None).feasible


def test_the_front_holds_what_nothing_beats_in_both_figures():
    robust, accurate = trial(0, outcome(82.0, 40.0)), trial(1, outcome(86.0, 20.0))
    beaten, twin = trial(2, outcome(82.0, 20.0)), trial(3, outcome(82.0, 40.0))
    assert front([robust, accurate, beaten, twin]) == [robust, accurate, twin]


def test_ties_go_to_the_smaller_ticket_then_to_the_earlier_trial():
    large, small = trial(0, outcome(84.0, 40.0, parameters=12)), trial(1, outcome(84.0, 40.0, parameters=9))
    later = trial(2, outcome(84.0, 40.0, parameters=9))
    assert [one.id for one in ranked([large, small, later])] == ["t1", "t2", "t0"]


def test_pruned_and_failed_trials_never_win():
    pruned = trial(0, outcome(84.0, 40.0)).model_copy(update={"status": "pruned"})
    assert ranked([pruned]) == []
