"""What a search with OOD twins writes to its summary."""

from pathlib import Path

import pytest

from tests.reports.conftest import make_outcome, make_trial, make_twin
from tune_tickets.config import load_experiment
from tune_tickets.results.folder import place_results
from tune_tickets.results.records import ControlRecord
from tune_tickets.results.summary import read_summary
from tune_tickets.search.closing import close_search

GOOD, BAD = make_twin(right=[True] * 15 + [False] * 5), make_twin(right=[False] * 10 + [True] * 10)


@pytest.fixture
def closed(tiny_yaml: Path, tmp_path: Path):
    """The summary of trials that may not win, so that no ticket is asked of the store."""

    def close(*trials):
        experiment = load_experiment(tiny_yaml)
        results = place_results(experiment, tmp_path / "out")
        dense = ControlRecord(kind="dense", seed=0, outcome=make_outcome(90.0, ood=[BAD]), stages=())
        close_search(experiment, (), results, list(trials), [dense], "finished", 1.0)
        return read_summary(tmp_path / "out")

    return close


def test_doubtful_gains_stand_in_the_notes_and_the_rows_say_what_they_can_show(closed):
    low = make_trial(0, feasible=False, outcome=make_outcome(80.0, ood=[GOOD]), uses_ood_information=True)
    fine = make_trial(1, feasible=False, outcome=make_outcome(89.0, ood=[GOOD]))
    summary = closed(low, fine)
    notes = [trial.outcome.notes for trial in summary.trials if trial.outcome]
    assert notes[0][0].startswith("gains 25.0 points on hans, but clean accuracy drops by 11.1%")
    assert notes[1] == summary.controls[0].outcome.notes == ()
    assert summary.uses_ood_information
    assert [(one.figure, one.rows, one.paired) for one in summary.detectable] == [
        ("clean", 256, False),
        ("ood/hans", 20, True),
    ]


def test_a_search_without_twins_says_nothing_of_them(closed):
    trial = make_trial(0, feasible=False)
    summary = closed(trial)
    assert summary.detectable == ()
    assert not summary.uses_ood_information
