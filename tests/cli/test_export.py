"""The verb `export`: its output and its errors."""

import pytest

from tests.cli.test_verbs import main_ended
from tests.models.test_loading import made_ticket
from tests.reports.conftest import make_summary, make_trial
from tune_tickets.cli.app import main
from tune_tickets.results.summary import write_summary
from tune_tickets.tickets.ticket import save_ticket


@pytest.fixture
def ticket(tmp_path):
    *_, found = made_ticket("bert", tmp_path)
    save_ticket(found, tmp_path / "mine.safetensors")
    return tmp_path / "mine.safetensors"


def test_it_prints_where_the_folder_is_and_its_steps_on_stderr(ticket, tmp_path, capsys):
    main_ended(["export", str(ticket), "--format", "pruned", "--output", str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{tmp_path / 'out'} (0.")
    assert "README.md" in printed.out
    assert f"reading {ticket}" in printed.err
    assert (tmp_path / "out" / "ticket.safetensors").is_file()


def test_a_second_export_needs_force(ticket, capsys):
    main_ended(["export", str(ticket), "--format", "pruned"])
    with pytest.raises(SystemExit) as ended:
        main(["export", str(ticket), "--format", "pruned"])
    assert ended.value.code == 2
    assert "replace it with --force" in capsys.readouterr().err
    main_ended(["export", str(ticket), "--format", "pruned", "--force"])


def test_a_search_without_a_winner_is_said_to_have_none(tmp_path, capsys):
    write_summary(make_summary([make_trial(0)], selected=None), tmp_path / "out")
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path / "out"), "--format", "hf"])
    assert ended.value.code == 2
    assert "holds no best ticket: no trial of that search may win" in " ".join(capsys.readouterr().err.split())
