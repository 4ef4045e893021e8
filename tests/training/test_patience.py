"""The patience rule of SRNets appendix E.1."""

import pytest

from tune_tickets.methods.bodies.retrain import out_of_patience


@pytest.mark.parametrize(
    ("looks", "over"),
    [
        ([], False),
        ([50.0], False),
        ([50.0, 50.2], False),
        ([50.0, 50.2, 50.5], True),  # half a point above the best is not more than half a point
        ([50.0, 50.2, 50.6], False),
        ([50.0, 60.0, 55.0, 60.4], True),
        ([50.0, 50.3, 50.6, 50.9], False),  # above 50 by 0.6 counts, then 50.9 waits
        ([50.0, 49.0, 70.0, 69.0, 71.0, 70.0, 71.4], True),
    ],
)
def test_two_looks_in_a_row_without_half_a_point_end_it(looks, over):
    assert out_of_patience(looks, patience=2, improvement=0.5) is over


def test_without_a_least_improvement_any_gain_counts_and_a_tie_does_not():
    assert not out_of_patience([50.0, 50.01, 50.02], patience=1, improvement=0.0)
    assert out_of_patience([50.0, 50.0], patience=1, improvement=0.0)
