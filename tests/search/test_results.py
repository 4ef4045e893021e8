"""The results folder after a crash: complete records are read, and a truncated one does no harm."""

from pathlib import Path

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import TicketsError
from tune_tickets.results.folder import Results, best_ticket, to_yaml
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.run import open_storage

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


@pytest.mark.parametrize("damage", [b"\xff\xfe\x00", b"null", b'{"id": 3}'])
def test_a_damaged_line_takes_no_other_with_it(results, damage):
    results.add_trial(record(0))
    with results.trials.open("ab") as stream:
        stream.write(damage + b"\n")
    results.add_trial(record(1))
    assert results.read_trials() == [record(0), record(1)]


def test_a_record_may_hold_what_unicode_takes_for_the_end_of_a_line(results):
    results.add_trial(record(0, status="failed", error="one\u2028two\x85three"))
    assert [trial.error for trial in results.read_trials()] == ["one\u2028two\x85three"]


def test_a_search_keeps_its_identity_over_its_sessions_and_shares_it_with_no_other(results, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("name: x\n", encoding="utf-8")
    other = Results(tmp_path / "other", results.store_url)
    for each in (results, other, results):
        each.open(load_experiment(path))
        first = results.search_id
    assert first == results.search_id != other.search_id != ""


def test_two_drivers_never_work_in_one_folder(results):
    refused = pytest.raises(TicketsError, match="another process runs or confirms the search")
    with results.alone(), refused, results.alone():
        pass
    with results.alone():
        pass


@pytest.mark.parametrize("damage", [lambda content: b"no database" * 100, lambda content: content[: len(content) // 2]])
def test_a_damaged_storage_is_named_with_the_way_out(results, damage):
    open_storage(results.optuna).engine.dispose()
    results.optuna.write_bytes(damage(results.optuna.read_bytes()))
    with pytest.raises(TicketsError, match=r"optuna\.db is damaged"):
        open_storage(results.optuna)


def test_of_a_trial_that_was_tried_again_the_last_record_counts(results):
    results.add_trial(record(0, status="failed", error="no memory"))
    results.add_trial(record(1))
    results.add_trial(record(0, attempt=2))
    assert results.read_trials() == [record(0, attempt=2), record(1)]


def test_a_folder_whose_search_has_not_ended_says_so_when_its_ticket_is_asked_for(tmp_path):
    assert best_ticket(str(tmp_path)) == str(tmp_path), "a transformers folder, perhaps"
    (tmp_path / "config.yaml").touch()
    with pytest.raises(TicketsError, match=r"has not ended\. Resume it: tune-tickets resume"):
        best_ticket(str(tmp_path))


@pytest.mark.parametrize("path", sorted(ROOT.glob("search_spaces/*.yaml")), ids=lambda path: path.stem)
def test_a_configuration_read_back_is_the_same_experiment_and_draws_in_the_same_order(path, tmp_path):
    experiment = load_experiment(path)
    (tmp_path / "config.yaml").write_text(to_yaml(experiment), encoding="utf-8")
    again = load_experiment(tmp_path / "config.yaml")
    assert again.digest == experiment.digest
    assert list(again.domains) == list(experiment.domains)
