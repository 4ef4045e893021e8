"""The results folder after a crash: what was written whole is read, what was cut off takes nothing else with it."""

from pathlib import Path

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import TicketsError
from tune_tickets.records import TrialRecord
from tune_tickets.tuning.results import Results, best_ticket, to_yaml

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path, str(tmp_path / "store"))


def record(number: int, **more) -> TrialRecord:
    return TrialRecord(**{"id": f"t{number:03d}", "number": number, "status": "complete", "params": {}} | more)


def test_a_line_cut_off_by_a_crash_is_dropped_and_the_next_one_kept(results):
    results.add_trial(record(0))
    with results.trials.open("a", encoding="utf-8") as stream:
        stream.write('{"id": "t001", "num')
    assert results.read_trials() == [record(0)]
    results.add_trial(record(2))
    assert results.read_trials() == [record(0), record(2)]


def test_of_a_trial_that_was_tried_again_the_last_record_counts(results):
    results.add_trial(record(0, status="failed", error="no memory"))
    results.add_trial(record(1))
    results.add_trial(record(0, attempt=2))
    assert results.read_trials() == [record(0, attempt=2), record(1)]


def test_a_folder_whose_search_has_not_ended_says_so_when_its_ticket_is_asked_for(tmp_path):
    assert best_ticket(str(tmp_path)) == str(tmp_path), "a transformers folder, perhaps"
    (tmp_path / "config.yaml").touch()
    with pytest.raises(TicketsError, match=r"has not ended\. Go on by tune-tickets resume"):
        best_ticket(str(tmp_path))


@pytest.mark.parametrize("path", sorted(ROOT.glob("search_spaces/*.yaml")), ids=lambda path: path.stem)
def test_a_configuration_read_back_is_the_same_experiment_and_draws_in_the_same_order(path, tmp_path):
    experiment = load_experiment(path)
    (tmp_path / "config.yaml").write_text(to_yaml(experiment), encoding="utf-8")
    again = load_experiment(tmp_path / "config.yaml")
    assert again.digest == experiment.digest
    assert list(again.domains) == list(experiment.domains)
