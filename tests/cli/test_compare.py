"""The verb `compare`."""

import json

import pytest

from tests.reports.conftest import make_summary, make_trial
from tune_tickets.cli.app import main
from tune_tickets.reports.side_by_side import SideBySide
from tune_tickets.results.summary import write_summary


@pytest.fixture
def folders(tmp_path):
    for name, gamma in (("a", 0.1), ("b", 0.2)):
        write_summary(make_summary([make_trial(0)]), tmp_path / name)
        (tmp_path / name / "config.yaml").write_text(f"method: {{gamma: {gamma}}}\n", encoding="utf-8")
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["compare", *arguments])
    return end.value.code


def test_it_prints_and_writes_both_files(folders, tmp_path, capsys):
    out, page = tmp_path / "out.json", tmp_path / "page.md"
    assert ended(*folders, "--json", str(out), "--markdown", str(page)) == 0
    printed = capsys.readouterr().out
    assert "A trial 0" in printed
    assert "B dense" in printed
    found = SideBySide.model_validate(json.loads(out.read_text(encoding="utf-8")))
    assert [one.label for one in found.experiments] == ["A", "B"]
    assert found.differences == {"method.gamma": {"A": 0.1, "B": 0.2}}
    assert page.read_text(encoding="utf-8").startswith("# Experiments side by side\n")


def test_a_wrong_folder_or_file_is_one_paragraph_and_exit_code_2(folders, tmp_path, capsys):
    assert ended(folders[0], str(tmp_path / "absent")) == 2
    assert capsys.readouterr().err.startswith("Error: There is no summary.json in ")
    assert ended(*folders, "--json", str(tmp_path / "no" / "out.json")) == 2
    assert "out.json cannot be written" in capsys.readouterr().err
