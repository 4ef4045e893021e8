"""The objective: the values for Optuna, which tickets may win, and which one wins."""

import pytest

from tune_tickets.config.objective import Constraint, Objective
from tune_tickets.results.objective import front, judge, names, ranked
from tune_tickets.results.records import AttackFigures, CleanFigures, Outcome, Sparsity, TrialRecord


def outcome(
    clean: float, *auas: float, majority: float = 55.0, parameters: int = 10, flops: float | None = None
) -> Outcome:
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
        flops=flops,
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


def test_weights_by_name_reach_every_metric():
    objective = Objective(weights={"clean": 1.0, "aua/threat1": 2.0, "sparsity": 1.0, "flops": 4.0})
    # 10 of 15 parameters are left; a quarter of the FLOPs is saved.
    expected = (0.84 + 2 * 0.40 + 1 / 3 + 4 * 0.25) / 8
    assert judge(objective, outcome(84.0, 20.0, 40.0, flops=75.0), DENSE).values == (pytest.approx(expected),)


def test_the_old_pair_of_weights_still_works():
    objective = Objective(clean_weight=0.25, attack_weight=0.75)
    assert judge(objective, outcome(84.0, 20.0), DENSE).values == (pytest.approx(0.25 * 0.84 + 0.75 * 0.2),)
    only_attacked = Objective(clean_weight=0.0, attack_weight=0.75)
    assert judge(only_attacked, outcome(84.0, 20.0), DENSE).values == (pytest.approx(0.2),)


def test_a_harmonic_mean_over_three_metrics():
    objective = Objective(kind="harmonic", metrics=("clean", "aua/threat0", "sparsity"))
    assert judge(objective, outcome(84.0, 20.0, 40.0), DENSE).values == (pytest.approx(3 / (1 / 0.84 + 5 + 3)),)
    nothing_cut = outcome(84.0, 20.0, parameters=15)
    assert judge(objective, nothing_cut, DENSE).values == (0.0,)


SUBJECT = Objective(
    kind="constrained",
    floor_points=None,
    constraints=(
        Constraint(metric="clean", at_least=-1.0, relative_to="dense"),
        Constraint(metric="sparsity", at_least=30.0),
        Constraint(metric="flops", at_most=80.0),
    ),
)


def test_one_metric_is_maximised_where_all_constraints_are_met():
    verdict = judge(SUBJECT, outcome(83.0, 20.0, 40.0, flops=80.0), DENSE)
    assert verdict.values == (pytest.approx(0.30),)
    assert verdict.feasible


def test_missed_constraints_are_named_and_cost_their_missing_points_together():
    # 82.5 is half a point short of 84 - 1; 12 of 15 parameters is a sparsity of 20, ten short; flops 5 above.
    verdict = judge(SUBJECT, outcome(82.5, 60.0, parameters=12, flops=85.0), DENSE)
    assert verdict.values == (pytest.approx(-0.155 - 1e-6),)
    assert verdict.objections == (
        "clean >= dense - 1 is missed by 0.5 points",
        "sparsity >= 30 is missed by 10.0 points",
        "flops <= 80 is missed by 5.0 points",
    )


def test_constraints_hold_beside_the_floor_under_every_kind():
    for kind in ("weighted", "harmonic", "pareto"):
        objective = Objective(kind=kind, constraints=(Constraint(metric="aua", at_least=30.0),))
        verdict = judge(objective, outcome(81.0, 20.0), DENSE)
        # One point of the floor, ten of the constraint.
        assert verdict.values == pytest.approx((-0.11 - 1e-6,) * len(verdict.values))
        assert len(verdict.objections) == 2


def test_the_front_of_a_vector_is_made_of_its_own_metrics_and_less_latency_is_better():
    objective = Objective(kind="pareto", metrics=("aua", "flops"))
    assert names(objective) == ("aua_value", "flops_value")
    quick = trial(0, outcome(83.0, 20.0, flops=60.0), objective, DENSE)
    robust = trial(1, outcome(83.0, 40.0, flops=90.0), objective, DENSE)
    slow = trial(2, outcome(86.0, 20.0, flops=95.0), objective, DENSE)
    assert quick.values == (pytest.approx(0.2), pytest.approx(0.4))
    assert front([quick, robust, slow]) == [quick, robust], "the third has the best clean accuracy, which is not asked"


def test_values_of_metrics_with_slashes_have_names_that_tune_does_not_take_apart():
    objective = Objective(kind="pareto", metrics=("clean", "aua/textfooler/minilm"))
    assert names(objective) == ("clean_value", "aua.textfooler.minilm_value")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": {"clean": 0.0}}, "weights are all 0"),
        ({"weights": {"clean": -1.0}}, "must not be negative"),
        ({"weights": {"clean": 1.0}, "clean_weight": 0.7}, "replaces clean_weight"),
        ({"weights": {"clean": 1.0}, "kind": "harmonic"}, "weights has no effect under the kind harmonic"),
        ({"metrics": ("clean", "ood")}, "metrics has no effect under the kind weighted"),
        ({"metrics": ("clean", "clean"), "kind": "pareto"}, "twice"),
        ({"maximise": "ood"}, "maximise has no effect"),
        ({"kind": "constrained"}, "needs constraints"),
    ],
)
def test_an_objective_that_would_ignore_what_it_was_told_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Objective(**fields)


@pytest.mark.parametrize("bounds", [{}, {"at_least": 1.0, "at_most": 2.0}])
def test_a_constraint_has_one_bound(bounds):
    with pytest.raises(ValueError, match="either at_least or at_most"):
        Constraint(metric="clean", **bounds)


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ({"metric": "sparsity", "at_least": 0.3}, "0.3 looks like a share; write 30"),
        ({"metric": "flops", "at_most": 0.8}, "0.8 looks like a share; write 80"),
        ({"metric": "aua", "at_least": 101.0}, "every ticket meets aua >= 101 or none"),
        ({"metric": "clean", "at_most": -1.0}, "every ticket meets clean <= -1 or none"),
        ({"metric": "clean", "at_least": -101.0, "relative_to": "dense"}, "meets clean >= dense - 101 or none"),
    ],
)
def test_a_bound_that_no_percentage_or_every_one_meets_is_refused(constraint, said):
    with pytest.raises(ValueError, match=said):
        Constraint(**constraint)


def test_half_a_point_less_than_the_dense_control_is_a_bound():
    assert Constraint(metric="clean", at_least=-0.5, relative_to="dense").text == "clean >= dense - 0.5"


def test_a_floor_that_reads_like_a_share_is_refused():
    with pytest.raises(ValueError, match=r"0\.8 looks like a share; write 80"):
        Objective(floor_points=None, floor_clean=0.8)
