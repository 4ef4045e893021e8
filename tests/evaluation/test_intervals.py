from math import sqrt

import pytest

from tune_tickets.evaluation.intervals import mcnemar, wilson

Z = 1.959963984540054


@pytest.mark.parametrize(("successes", "n"), [(30, 100), (0, 40), (40, 40), (1, 1), (260, 872)])
def test_wilson_agrees_with_the_formula(successes, n):
    share = successes / n
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    assert wilson(successes, n) == pytest.approx((100 * (centre - half), 100 * (centre + half)), abs=1e-9)


@pytest.mark.parametrize(("n", "half_width"), [(100, 9.0), (200, 6.4), (872, 3.0)])
def test_at_thirty_percent_the_half_widths_are_about_the_known_ones(n, half_width):
    low, high = wilson(round(0.3 * n), n)
    assert (high - low) / 2 == pytest.approx(half_width, abs=0.25)


def test_without_rows_everything_is_possible():
    assert wilson(0, 0) == (0.0, 100.0)


def flags(text):
    return [letter == "1" for letter in text]


@pytest.mark.parametrize(
    ("a", "b", "p_value"),
    [
        ("1010", "1010", 1.0),  # no row differs
        ("111000", "000111", 1.0),  # 3 to 3
        ("111111", "000000", 2 / 64),  # 6 to 0: 2 · C(6,0) / 2^6
        ("1111100", "0000010", 14 / 64),  # 5 to 1: 2 · (C(6,0) + C(6,1)) / 2^6
        ("0000010", "1111100", 14 / 64),  # the other way round
        ("11111111" + "1111", "00000001" + "1111", 2 / 128),  # rows both got right do not count: 7 to 0
    ],
)
def test_mcnemar_is_the_exact_binomial_test_on_the_rows_that_differ(a, b, p_value):
    assert mcnemar(flags(a), flags(b)) == pytest.approx(p_value)


def test_mcnemar_wants_the_same_rows():
    with pytest.raises(ValueError, match="3 and 2"):
        mcnemar(flags("111"), flags("11"))
