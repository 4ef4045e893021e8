"""The verb `report`."""

import pytest

from tests.reports.page.conftest import many, results  # noqa: F401 - a fixture
from tune_tickets.cli.app import main


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["report", *arguments])
    return end.value.code


def test_it_writes_both_pages_and_says_where(results, capsys):  # noqa: F811
    folder = results(many(2))
    assert ended(str(folder)) == 0
    printed = capsys.readouterr().out
    assert f"Report: {folder}/report.html" in printed
    assert f"Markdown: {folder}/report.md" in printed
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# demo\n")


def test_a_folder_without_a_search_is_one_paragraph_and_exit_code_2(tmp_path, capsys):
    assert ended(str(tmp_path)) == 2
    assert capsys.readouterr().err.startswith(f"Error: There is no summary.json in {tmp_path}")


def test_a_broken_confirmation_says_what_to_do(results, capsys):  # noqa: F811
    folder = results(many(2))
    (folder / "confirm.json").write_text("{")
    assert ended(str(folder)) == 2
    assert "Remove it, or run confirm again." in capsys.readouterr().err
