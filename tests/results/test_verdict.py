"""The verdict of a search, by hand-worked tests on made-up rows."""

import json
from fractions import Fraction
from math import comb
from types import SimpleNamespace

import pytest

from tests.reports.conftest import make_attack, make_outcome, make_summary, make_trial
from tune_tickets.config.objective import Objective
from tune_tickets.results.records import ControlRecord
from tune_tickets.results.statistics import detectable_paired, holm, mcnemar, rows_to_show
from tune_tickets.results.summary import FILE_NAME, read_summary, write_summary
from tune_tickets.results.verdict import compared_rows, judge_search

OBJECTIVE = Objective()


def rows(only_ours, only_theirs, both=20, neither=40):
    """Return which rows each of two models survives."""
    ours = [True] * only_ours + [False] * only_theirs + [True] * both + [False] * neither
    theirs = [False] * only_ours + [True] * only_theirs + [True] * both + [False] * neither
    return tuple(ours), tuple(theirs)


def attacked(*survived, clean=78.1):
    """Return an outcome with one threat model per given list of rows."""
    attacks = [
        make_attack(threat=f"threat{number}", aua=100.0 * sum(found) / len(found), survived=found)
        for number, found in enumerate(survived)
    ]
    return make_outcome(clean, attacks=attacks)


def control(outcome, kind="dense", **changes):
    return ControlRecord(kind=kind, seed=0, outcome=outcome, stages=(), **changes)


def judged(ours, theirs, clean=78.1, dense_clean=79.3, more=(), objective=OBJECTIVE, **changes):
    trial = make_trial(3, outcome=attacked(ours, clean=clean), **changes)
    return judge_search([trial], [control(attacked(theirs, clean=dense_clean)), *more], objective)


def test_holm_by_hand():
    # Sorted: 0.01 x 4 = 0.04; 0.02 x 3 = 0.06; 0.03 x 2 = 0.06; 0.04 x 1 = 0.04, which must not be below 0.06.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx((0.06, 0.04, 0.06, 0.06))
    assert holm([0.9, 0.6]) == (1.0, 1.0)
    assert holm([0.2]) == (0.2,)
    assert holm([]) == ()


def test_rows_to_show_is_the_inverse_of_what_rows_can_show():
    ours, theirs = rows(14, 8)
    needed = rows_to_show(ours, theirs)
    times = needed / len(ours)
    assert times > 1
    whole = round(times)
    assert detectable_paired(ours * whole, theirs * whole) == pytest.approx(100 * 6 / 82, rel=0.05)
    assert rows_to_show(ours, theirs, level=0.01) > needed
    assert rows_to_show(ours, ours) is None


def test_a_ticket_that_is_significantly_more_accurate_under_attack_is_shipped():
    ours, theirs = rows(20, 4, both=22, neither=50)
    found = judged(ours, theirs)
    # 24 rows differ, 4 of them for the dense model.
    p_value = float(2 * sum(Fraction(comb(24, k), 2**24) for k in range(5)))
    assert (found.kind, found.trial, found.dominated) == ("ship", "t3", False)
    assert found.p_value == pytest.approx(p_value)
    assert found.sentence == (
        "Ship t3: under attack it is right on 43.8% of 96 rows, the dense model on 27.1% (+16.7 points, p = 0.002); "
        "on clean text 78.1% against 79.3%; 18% of the encoder's parameters are cut."
    )
    assert found.figures["under_attack"] == pytest.approx(43.75)
    assert (found.figures["rows"], found.figures["comparisons"]) == (96, 1)


def test_the_p_value_is_corrected_for_the_comparisons_with_all_controls():
    ours, theirs = rows(8, 1)  # p = 20 / 512 = 0.039
    assert judged(ours, theirs).kind == "ship"
    random = control(attacked(theirs), kind="random")
    other = control(attacked(theirs), kind="random", like="t7")
    found = judged(ours, theirs, more=(random, other))
    assert found.p_value == pytest.approx(40 / 512), "the random ticket like t7 is no control of t3"
    assert (found.kind, found.figures["comparisons"]) == ("undecided", 2)


def test_a_dominated_ticket_means_keep_the_dense_model():
    ours, theirs = rows(2, 7, both=5, neither=18)
    found = judged(ours, theirs, clean=69.5, dense_clean=73.4, objective=Objective(floor_points=None))
    assert (found.kind, found.dominated) == ("keep_dense", True)
    # 9 rows differ: 2 (1 + 9 + 36) / 512.
    assert found.sentence == (
        "Keep the dense model: under attack t3 is right on 21.9% of 32 rows, the dense model on 37.5% "
        "(-15.6 points, p = 0.180); on clean text 69.5% against 73.4%; 18% of the encoder's parameters are cut."
    )
    ours, theirs = rows(3, 3)
    assert judged(ours, theirs, clean=79.3).kind == "undecided", "equal in both is not dominated"
    assert judged(ours, theirs, clean=79.2).dominated


def test_a_dense_model_that_is_significantly_more_robust_is_kept_though_the_ticket_is_better_on_clean_text():
    found = judged(*rows(2, 20), clean=85.0)
    assert (found.kind, found.dominated) == ("keep_dense", False)
    assert found.p_value < 0.001


def test_a_better_value_out_of_distribution_saves_from_domination_only_if_the_objective_asks_for_it():
    from tests.reports.conftest import make_twin

    ours, theirs = rows(3, 4)
    trial = make_trial(3, outcome=attacked(ours, clean=78.0).model_copy(update={"ood": (make_twin(),)}))
    worse = make_twin(right=(True, False, False, False))
    dense = control(attacked(theirs).model_copy(update={"ood": (worse,)}))
    assert judge_search([trial], [dense], OBJECTIVE).dominated
    asked = Objective(weights={"clean": 1, "ood": 1})
    assert not judge_search([trial], [dense], asked).dominated
    sized = Objective(weights={"clean": 1, "aua": 1, "sparsity": 1})
    assert judge_search([trial], [dense], sized).dominated, "being smaller is no gain in accuracy"


def test_an_unsettled_difference_names_what_the_rows_can_show_and_how_many_would_settle_it():
    ours, theirs = rows(14, 8)
    found = judged(ours, theirs)
    assert found.kind == "undecided"
    needed, smallest = found.figures["rows_needed"], detectable_paired(ours, theirs)
    assert rows_to_show(ours, theirs) <= needed < 1.1 * rows_to_show(ours, theirs)
    assert found.figures["detectable"] == smallest
    assert found.sentence == (
        "Search on: under attack t3 is right on 41.5% of 82 rows, the dense model on 34.1% (+7.3 points, p = 0.286); "
        f"on clean text 78.1% against 79.3%; 82 rows show a difference of {smallest:.1f} points or more, so attack "
        f"about {needed:.0f} rows (evaluation.rows={needed:.0f} task.rows.select={needed:.0f}) or try more trials "
        "(search.trials=2)."
    )


def test_a_difference_that_no_affordable_number_of_rows_shows_asks_for_trials():
    found = judged(*rows(31, 30, both=100, neither=100))
    assert found.sentence.endswith("points or more, so try more trials (search.trials=2).")
    assert "rows_needed" not in found.figures
    behind = judged(*rows(8, 9), clean=85.0)
    assert (behind.kind, "rows_needed" in behind.figures) == ("undecided", False)


def test_rows_that_can_show_no_difference_at_all_are_called_too_few():
    found = judged(*rows(3, 1, both=2, neither=14))
    assert "; they differ on 4 rows, too few to show any difference, so attack about " in found.sentence


def test_a_robust_ticket_that_has_lost_clean_accuracy_is_not_shipped():
    ours, theirs = rows(20, 4)
    without = Objective(floor_points=None)
    assert judged(ours, theirs, clean=60.0, objective=without).kind == "undecided"
    assert judged(ours, theirs, clean=60.0, objective=Objective(floor_points=30.0)).kind == "ship"
    assert judged(ours, theirs, clean=78.0, objective=without).kind == "ship", "the clean rows do not show a loss"


def test_if_no_ticket_may_win_the_dense_model_is_kept():
    ours, theirs = rows(3, 3)
    trials = [
        make_trial(number, outcome=attacked(ours, clean=50.0), feasible=False, values=(value,))
        for number, value in ((1, -0.3), (2, -0.1))
    ]
    found = judge_search(trials, [control(attacked(theirs, clean=79.3))], OBJECTIVE)
    assert (found.kind, found.trial) == ("keep_dense", "t2")
    assert found.sentence == (
        "Keep the dense model: none of the 2 measured tickets meets the conditions of the objective; under attack t2, "
        "the nearest, is right on 34.8% of 66 rows, the dense model on 34.8% (+0.0 points, p = 1.000); on clean text "
        "50.0% against 79.3%."
    )


def test_without_a_dense_control_a_trial_or_an_attack_the_verdict_says_what_is_missing():
    ours, theirs = rows(3, 3)
    trial = make_trial(3, outcome=attacked(ours))
    alone = judge_search([trial], [control(attacked(theirs), kind="random")], OBJECTIVE)
    assert (alone.kind, alone.p_value) == ("undecided", None)
    assert alone.sentence == "Search on: no dense model was measured to compare t3 with: set controls.dense=true."
    none = judge_search([make_trial(3, status="failed", outcome=None)], [control(attacked(theirs))], OBJECTIVE)
    assert none.sentence.startswith("Search on: no trial was measured completely")
    calm = judge_search([make_trial(3, outcome=attacked())], [control(attacked())], OBJECTIVE)
    assert (calm.kind, "set evaluation.attacks" in calm.sentence) == ("undecided", True)


def test_a_row_counts_if_it_survives_every_attack_that_both_models_saw():
    ours = attacked((True, True, False, False), (True, False, True, False))
    theirs = attacked((True, True, True, True), (False, True, True, True))
    assert compared_rows(ours, theirs) == ((True, False, False, False), (False, True, True, True))
    fewer = attacked((True, True, True, True))
    assert compared_rows(ours, fewer) == ((True, True, False, False), (True, True, True, True))
    elsewhere = make_outcome(attacks=[make_attack(threat="threat0", survived=(True,) * 4, sample="other rows")])
    assert compared_rows(ours, elsewhere) is None


def test_a_suite_is_compared_by_its_own_rows():
    def suite(survived, prints=("a", "b")):
        return SimpleNamespace(suite=SimpleNamespace(survived=survived, fingerprints=prints, sample="rows"), attacks=())

    ours, theirs = suite((True, False)), suite((False, False), ("b", "a"))
    assert compared_rows(ours, theirs) == ((True, False), (False, False)), "the order of the attacks does not matter"
    assert compared_rows(ours, suite((True, True), ("a", "c"))) is None


@pytest.mark.parametrize("kind", ["ship", "keep_dense", "undecided"])
def test_a_verdict_is_kept_in_the_summary_and_older_summaries_still_load(kind, tmp_path):
    shapes = {"ship": rows(20, 4), "keep_dense": rows(4, 20), "undecided": rows(14, 8)}
    found = judged(*shapes[kind])
    assert found.kind == kind
    write_summary(make_summary([make_trial(3)], verdict=found), tmp_path)
    assert read_summary(tmp_path).verdict == found
    data = json.loads((tmp_path / FILE_NAME).read_text())
    del data["verdict"], data["selected"]["beaten"]
    for comparison in data["selected"]["comparisons"]:
        del comparison["corrected"], comparison["rows"]
    (tmp_path / FILE_NAME).write_text(json.dumps(data))
    older = read_summary(tmp_path)
    assert older.verdict is None
    assert older.selected.winner == older.selected.trial == "t0"


def test_the_test_agrees_with_scipy():
    from scipy.stats import binomtest

    for only_ours, only_theirs in ((0, 0), (1, 0), (8, 1), (20, 4), (5, 17)):
        total = only_ours + only_theirs
        expected = binomtest(only_ours, total).pvalue if total else 1.0
        assert mcnemar(*rows(only_ours, only_theirs)) == pytest.approx(expected)
