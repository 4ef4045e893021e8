"""What a search reports about its winner and its controls when it ends."""

from pathlib import Path

import pytest

from tests.reports.conftest import make_outcome, make_trial
from tune_tickets.config import load_experiment
from tune_tickets.results.folder import place_results
from tune_tickets.results.records import ControlRecord, Outcome
from tune_tickets.results.summary import read_summary
from tune_tickets.search.closing import close_search, why_first


def constant(share: float) -> Outcome:
    outcome = make_outcome(53.3)
    return outcome.model_copy(update={"clean": outcome.clean.model_copy(update={"majority_share": share})})


@pytest.mark.parametrize(
    ("share", "notes"), [(100.0, ("near-constant predictor: 100% of rows get one label",)), (60.0, ())]
)
def test_a_control_that_answers_the_same_for_everything_is_noted(share, notes, tiny_yaml: Path, tmp_path: Path):
    experiment = load_experiment(tiny_yaml)
    dense = ControlRecord(kind="dense", seed=0, outcome=constant(share), stages=())
    results = place_results(experiment, tmp_path / "out")
    close_search(experiment, (), results, [make_trial(0, feasible=False)], [dense], "finished", 1.0)
    assert read_summary(tmp_path / "out").controls[0].outcome.notes == notes


def test_notes_of_the_flow_stay_and_are_not_repeated(tiny_yaml: Path, tmp_path: Path):
    note = "trained on the substitutes of words/near50-forms"
    outcome = constant(100.0).model_copy(update={"notes": (note,)})
    experiment, results = load_experiment(tiny_yaml), place_results(load_experiment(tiny_yaml), tmp_path / "out")
    for _ in range(2):
        dense = ControlRecord(kind="dense", seed=0, outcome=outcome, stages=())
        close_search(experiment, (), results, [make_trial(0, feasible=False)], [dense], "finished", 1.0)
        outcome = read_summary(tmp_path / "out").controls[0].outcome
        assert outcome.notes == (note, "near-constant predictor: 100% of rows get one label")


def test_the_reason_speaks_of_no_floor_and_of_no_attack_that_was_not_there():
    metrics = {"clean": 84.4, "aua": 23.0}
    assert why_first([make_trial(0, metrics=metrics)]) == (
        "t0 is the only ticket that may win (clean 84.4%, under attack 23.0%)."
    )
    assert why_first([make_trial(1, metrics={"clean": 84.4}), make_trial(0)]) == (
        "t1 is the best of the 2 tickets that may win (clean 84.4%)."
    )
