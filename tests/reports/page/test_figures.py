"""The table of the page: titles above the right columns, nothing too wide for paper."""

from tests.reports.conftest import BASELINES, make_cost, make_summary, make_trial
from tune_tickets.reports.page.figures import PAPER_WIDTH, anchor, figure_table, paper_tables
from tune_tickets.reports.table import rows


def shown():
    return rows(make_summary([make_trial(0, cost=make_cost())], cost_baselines=BASELINES), 9)


def test_titles_cover_their_columns():
    table = figure_table(shown())
    assert table.titles[:4] == (("", 3), ("textfooler/minilm", 3), ("textbugger/minilm", 3), ("cut%", 3))
    assert sum(span for _, span in table.titles) == len(table.headers) == len(table.lines[0].cells)
    assert table.whole_headers[:4] == ["method", "obj.", "Clean%", "textfooler/minilm Aua% [95%]"]
    assert table.lines[0].cells[2] == "84.4 ±4.5"


def test_on_paper_the_same_columns_stand_in_narrow_tables():
    whole, tables = figure_table(shown()), paper_tables(shown())
    assert [cell for table in tables for cell in table.lines[0].cells] == list(whole.lines[0].cells)
    assert len(tables) > 1
    for table in tables:
        widths = [
            max(len(header), *(len(line.cells[index]) for line in table.lines))
            for index, (header, _) in enumerate(table.headers)
        ]
        assert sum(widths) <= PAPER_WIDTH


def test_names_become_places():
    assert (anchor("trial 3"), anchor("random-0"), anchor('a"b <c>')) == ("trial-3", "random-0", "a-b-c")
