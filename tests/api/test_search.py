"""What `tune` returns, read from a folder, and what it refuses before anything starts."""

import pytest

from tests.reports.conftest import make_summary, make_trial
from tune_tickets.api.search import Result, tune
from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.results.folder import best_ticket
from tune_tickets.results.summary import write_summary


def test_a_results_folder_is_a_result_again(tmp_path):
    summary = make_summary([make_trial(0), make_trial(1)])
    write_summary(summary, tmp_path)
    result = Result.load(str(tmp_path))
    assert result.summary == summary
    assert result.best == tmp_path / summary.selected.ticket
    assert [row["trial"] for row in result.trials()] == [0, 1]
    assert result.trials()[0].items() >= summary.trials[0].params.items()
    assert result.table(top=1).count("trial") > 0
    assert "\n" not in repr(result)
    assert "2 trials" in repr(result)


def test_a_search_without_a_winner_has_no_ticket_and_says_why(tmp_path):
    summary = make_summary([make_trial(0)])
    none = summary.selected.model_copy(update={"trial": None, "ticket": None, "reason": "No ticket may win."})
    result = Result(tmp_path, summary.model_copy(update={"selected": none}))
    assert result.best is None
    with pytest.raises(TicketsError, match=r"no best ticket: No ticket may win\."):
        result.ticket()


def test_what_does_not_fit_is_refused_before_a_folder_is_made(tmp_path):
    with pytest.raises(ConfigError, match=r"dictionary: search\.trails: unknown key; did you mean 'trials'"):
        tune({"search": {"trails": 3}}, tmp_path / "out")
    with pytest.raises(ConfigError, match="no such file"):
        tune(tmp_path / "none.yaml", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_winner_is_not_taken_for_a_model(tmp_path):
    write_summary(make_summary([make_trial(0)]), tmp_path)
    with pytest.raises(TicketsError, match="holds no best ticket: no trial of that search may win"):
        best_ticket(str(tmp_path))
    (tmp_path / "best_ticket.safetensors").touch()
    assert best_ticket(str(tmp_path)) == str(tmp_path / "best_ticket.safetensors")
    assert best_ticket("some/model") == "some/model"
