from math import comb

import pytest

from tests.reports.conftest import make_attack, make_outcome
from tune_tickets.reports.comparisons import compared, comparisons
from tune_tickets.results.records import Comparison, Selection


def pair(only_ours, only_theirs, both=3, neither=4):
    """Return two outcomes whose rows disagree the given number of times."""
    ours = [True] * only_ours + [False] * only_theirs + [True] * both + [False] * neither
    theirs = [False] * only_ours + [True] * only_theirs + [True] * both + [False] * neither

    def outcome(survived):
        return make_outcome(attacks=[make_attack(aua=100.0 * sum(survived) / len(survived), survived=survived)])

    return outcome(ours), outcome(theirs)


def test_the_p_value_is_that_of_the_exact_mcnemar_test():
    # 8 rows against 1: twice the binomial tail P(X <= 1), n = 9, p = 1/2, which is 2 * (1 + 9) / 512.
    ours, theirs = pair(8, 1)
    (found,) = comparisons(ours, {"dense": theirs})
    assert found.p_value == pytest.approx(2 * (comb(9, 0) + comb(9, 1)) / 2**9)
    assert found.p_value == pytest.approx(0.0390625)
    assert found.distinguishable
    assert found.difference == pytest.approx(100 * 7 / 16)
    assert (found.other, found.threat) == ("dense", "textfooler/minilm")


def test_a_few_rows_of_difference_do_not_tell_two_models_apart():
    # 4 against 1: 2 * (1 + 5) / 32.
    ours, theirs = pair(4, 1)
    (found,) = comparisons(ours, {"dense": theirs})
    assert found.p_value == pytest.approx(0.375)
    assert not found.distinguishable


def test_a_worse_ticket_has_a_negative_difference():
    ours, theirs = pair(1, 8)
    (found,) = comparisons(ours, {"trial 7": theirs})
    assert found.difference == pytest.approx(-43.75)
    assert found.p_value == pytest.approx(0.0390625)


def test_every_other_model_and_threat_is_compared_once():
    outcome = make_outcome()
    found = comparisons(outcome, {"dense": outcome, "random-0": outcome})
    assert [(one.other, one.threat) for one in found] == [
        ("dense", "textfooler/minilm"),
        ("dense", "textbugger/minilm"),
        ("random-0", "textfooler/minilm"),
        ("random-0", "textbugger/minilm"),
    ]


def test_figures_of_another_fingerprint_or_of_other_rows_are_not_compared():
    ours = make_outcome(attacks=[make_attack(fingerprint="a")])
    elsewhere = make_outcome(attacks=[make_attack(fingerprint="b")])
    fewer = make_outcome(attacks=[make_attack(fingerprint="a", survived=(True, False))])
    others = make_outcome(attacks=[make_attack(fingerprint="a", sample="other rows")])
    assert comparisons(ours, {"dense": elsewhere, "random-0": fewer, "random-1": others}) == ()


def selection(*found):
    return Selection(trial="t1", ticket=None, reason="", comparisons=found)


def test_a_difference_that_the_rows_cannot_settle_has_its_direction_and_its_size():
    tie = Comparison(
        other="dense", threat="t", difference=-15.625, p_value=0.031, corrected=0.062, rows=32, distinguishable=False
    )
    text = compared(selection(tie))
    assert "t: t1 is 15.6 points below dense (p = 0.062: 32 rows cannot settle a difference of this size).\n" in text, (
        "the corrected p-value is shown"
    )
    assert "confirm the ticket on report rows" in text


@pytest.mark.parametrize(("difference", "word"), [(12.0, "above"), (-12.0, "below")])
def test_a_settled_difference_has_its_direction_and_its_size(difference, word):
    found = Comparison(other="random-0", threat="t", difference=difference, p_value=0.0002, distinguishable=True)
    assert f"t: t1 is 12.0 points {word} random-0 (p < 0.001)." in compared(selection(found))


def test_equal_models_are_level():
    found = Comparison(other="dense", threat="t", difference=0.0, p_value=1.0, rows=8, distinguishable=False)
    assert "t: t1 is level with dense (p = 1.000, 8 rows)." in compared(selection(found))


def test_without_comparisons_the_text_says_so():
    assert compared(selection()) == "There is no other model under the same threat model to compare t1 with."


def test_p_values_are_corrected_for_the_number_of_comparisons():
    ours, theirs = pair(8, 1)
    (alone,) = comparisons(ours, {"dense": theirs})
    assert (alone.p_value, alone.corrected, alone.distinguishable) == (0.0390625, 0.0390625, True)
    found = comparisons(ours, {"dense": theirs, "random-0": ours})
    assert [(one.p_value, one.corrected) for one in found] == [(0.0390625, 0.078125), (1.0, 1.0)]
    assert not found[0].distinguishable, "0.078 is above 0.05"
