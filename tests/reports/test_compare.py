from math import comb

import pytest

from tests.reports.conftest import make_attack, make_outcome
from tune_tickets.reports.comparisons import comparisons, verdict
from tune_tickets.results.records import Comparison


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


def test_the_verdict_says_what_cannot_be_told_apart():
    tie = Comparison(other="dense", threat="t", difference=6.0, p_value=0.2101, distinguishable=False)
    text = verdict((tie,))
    assert "t: the selected ticket cannot be told from dense (+6.0 points, p = 0.210)." in text
    assert "confirm the ticket on report rows" in text


@pytest.mark.parametrize(("difference", "word"), [(12.0, "more"), (-12.0, "less")])
def test_the_verdict_says_by_how_much_and_in_which_direction(difference, word):
    found = Comparison(other="random-0", threat="t", difference=difference, p_value=0.0002, distinguishable=True)
    assert f"keeps 12.0 points {word} accuracy under attack than random-0 (p < 0.001)." in verdict((found,))


def test_the_verdict_on_nothing_says_so():
    assert "no other model" in verdict(())
