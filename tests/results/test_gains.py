from tests.reports.conftest import make_outcome, make_twin
from tune_tickets.results.objective import doubtful_gains

HALF, MORE = make_twin(right=(True, False)), make_twin(right=(True, True))
DENSE = make_outcome(80.0, ood=[HALF])


def test_a_gain_beside_a_drop_of_more_than_five_percent_is_doubtful():
    # 5% of 80 is 4 points: 76.0 is still allowed.
    (said,) = doubtful_gains(make_outcome(75.9, ood=[MORE]), DENSE)
    assert said.startswith("gains 50.0 points on hans, but clean accuracy drops by 5.1% of the dense control's")
    assert doubtful_gains(make_outcome(76.0, ood=[MORE]), DENSE) == ()


def test_no_gain_no_twin_or_no_control_is_no_doubt():
    assert doubtful_gains(make_outcome(50.0, ood=[HALF]), DENSE) == ()
    assert doubtful_gains(make_outcome(50.0), DENSE) == ()
    assert doubtful_gains(make_outcome(50.0, ood=[MORE]), None) == ()
    assert doubtful_gains(make_outcome(50.0, ood=[make_twin("other", (True,))]), DENSE) == ()
