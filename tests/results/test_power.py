"""Detectable differences: the numbers of textbooks, and the power in a simulation."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from tune_tickets.results.statistics import detectable, detectable_paired


def test_textbook_sample_size():
    # 50% against 60%: n = (1.95996 sqrt(2·0.55·0.45) + 0.84162 sqrt(0.25 + 0.24))² / 0.1² = 387.3 rows per model.
    assert detectable(50.0, 387) == pytest.approx(10.0, abs=0.01)
    assert detectable(40.0, 387) == pytest.approx(10.0, abs=0.3)


def test_more_rows_show_smaller_differences_and_both_sides_of_50_are_alike():
    assert detectable(80.0, 100) > detectable(80.0, 1000) > detectable(80.0, 10000) > 0
    assert detectable(80.0, 500) == pytest.approx(detectable(20.0, 500))


def test_two_samples_of_that_size_show_the_difference_in_80_percent_of_cases():
    rows, share = 400, 0.8
    other = share - detectable(100 * share, rows) / 100
    ones, twos = np.arange(rows + 1)[:, None], np.arange(rows + 1)[None, :]
    pooled = (ones + twos) / (2 * rows)
    deviation = np.sqrt(np.maximum(2 * pooled * (1 - pooled) / rows, 1e-12))
    shown = np.abs(ones - twos) / rows / deviation > norm.ppf(0.975)
    chance = binom.pmf(ones, rows, share) * binom.pmf(twos, rows, other)
    assert chance[shown].sum() == pytest.approx(0.80, abs=0.01)


def test_paired_rows_show_the_difference_in_80_percent_of_cases():
    rows, divided = 1000, 200
    ours, theirs = [True] * rows, [False] * divided + [True] * (rows - divided)
    difference = detectable_paired(ours, theirs) / 100
    assert difference == pytest.approx(0.0393, abs=0.0005)
    assert difference * 100 < detectable(90.0, rows)
    drawn = np.random.default_rng(0)
    # Rows only one model gets right: shares (0.2 + d) / 2 and (0.2 - d) / 2; the score test on their numbers.
    counts = drawn.multinomial(rows, [(0.2 + difference) / 2, (0.2 - difference) / 2, 0.8], size=20000)
    statistic = np.abs(counts[:, 0] - counts[:, 1]) / np.sqrt(np.maximum(counts[:, 0] + counts[:, 1], 1))
    assert (statistic > norm.ppf(0.975)).mean() == pytest.approx(0.80, abs=0.02)


def test_too_few_rows_show_nothing_but_the_largest_difference():
    assert detectable(50.0, 2) == pytest.approx(50.0)
    assert detectable_paired([True, True], [True, True]) == pytest.approx(50.0)
