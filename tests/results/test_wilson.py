from math import sqrt

import pytest

from tune_tickets.results.statistics import wilson

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
