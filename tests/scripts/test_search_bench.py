"""How the search benchmark uses its times."""

import sys
from pathlib import Path

import pytest

from tests.reports.conftest import make_summary, make_trial
from tune_tickets.results.records import StageRecord
from tune_tickets.search.progress import TrialFinished

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "scripts"))
from benches.search import Watched


def stage(seconds: float, cached: bool = False) -> StageRecord:
    return StageRecord(name="retrain", digest="d", cached=cached, seconds=seconds)


def test_overhead_is_the_time_after_the_first_trial_without_the_stages_computed_in_it():
    trials = [make_trial(0, stages=(stage(5.0),)), make_trial(1, stages=(stage(6.0), stage(9.0, cached=True)))]
    trials.append(make_trial(2, stages=(stage(4.0), stage(2.0))))
    watched = Watched([0.0, 8.0, 15.0], {0: 8.0, 1: 15.0, 2: 23.0}, 30.0, make_summary(trials))
    # 15 s after the first trial, 6 and 6 of them in stages: 3 s for two trials.
    assert watched.overhead() == pytest.approx(1.5)
    assert watched.trials_seconds == 23.0


def test_a_trial_that_fails_ends_the_bench():
    with pytest.raises(SystemExit, match="trial 1 ended as failed: no room"):
        Watched().hear(TrialFinished(1, "failed", None, {}, "no room"))
