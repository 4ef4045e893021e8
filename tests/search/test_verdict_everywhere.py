"""A ticket that the dense control beats is nowhere called best, chosen or selected."""

import io
import re
import shutil

import pytest
from rich.console import Console

from tests.reports.conftest import make_attack, make_outcome, make_trial
from tests.reports.page.conftest import Parsed
from tune_tickets.config import load_experiment
from tune_tickets.reports.gallery import draw_pictures
from tune_tickets.reports.page.writing import write_report
from tune_tickets.reports.side_by_side import comparison_markdown, print_comparison, read_finished, side_by_side
from tune_tickets.reports.table import print_table
from tune_tickets.results.folder import place_results
from tune_tickets.results.records import ControlRecord
from tune_tickets.search.closing import close_search

PRAISE = re.compile(r"\b(best|chosen|selected)\b", re.IGNORECASE)


def outcome(clean, survived, rows=32):
    found = tuple(row < survived for row in range(rows))
    attack = make_attack(aua=100.0 * survived / rows, survived=found)
    return make_outcome(clean, attacks=[attack])


@pytest.fixture
def closed(tiny_yaml, tmp_path):
    """Closes a search of two tickets with these figures (clean accuracy, surviving rows) and a dense control."""

    def close(first, second, dense):
        experiment = load_experiment(tiny_yaml)
        results = place_results(experiment, tmp_path / "out")
        results.folder.mkdir()
        shutil.copy(tiny_yaml, results.config)
        trials = [
            make_trial(
                number, outcome=outcome(*figures), metrics=outcome(*figures).metrics(), values=(0.5 - number / 10,)
            )
            for number, figures in enumerate((first, second))
        ]
        control = ControlRecord(kind="dense", seed=0, outcome=outcome(*dense), stages=())
        summary = close_search(experiment, (), results, trials, [control], "finished", 1.0)
        return results, summary

    return close


def printed(show, *arguments, width=80):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    show(*arguments, console)
    return console.file.getvalue()


def test_a_beaten_ticket_is_praised_nowhere(closed):
    results, summary = closed((69.5, 7), (68.0, 5), (73.4, 12))
    assert (summary.verdict.kind, summary.verdict.dominated) == ("keep_dense", True)
    assert (summary.selected.trial, summary.selected.beaten, summary.selected.winner) == ("t0", True, None)
    folder = results.folder
    drawn, _ = draw_pictures(results, summary)
    pages = write_report(folder, ())
    shutil.copytree(folder, folder.with_name("again"))
    experiments = read_finished([folder, folder.with_name("again")])
    page = Parsed(pages.html.read_text(encoding="utf-8"))
    texts = {
        "table": printed(print_table, summary),
        "page": "\n".join(page.text),
        "marks": "\n".join(str(value) for _, attributes in page.elements for value in attributes.values()),
        "markdown": pages.markdown.read_text(encoding="utf-8"),
        "reason": summary.selected.reason,
        "verdict": summary.verdict.sentence,
        "pictures": "\n".join(path.read_text(encoding="utf-8") for path in drawn.values() if path.suffix == ".svg"),
        "compare": printed(print_comparison, experiments, side_by_side(experiments)),
        "compare.md": comparison_markdown(experiments, side_by_side(experiments)),
    }
    for name, text in texts.items():
        assert text.strip(), name
        # The file keeps its name, for tools.
        found = [line for line in text.replace("best_ticket.safetensors", "").splitlines() if PRAISE.search(line)]
        assert found == [], name
        assert "* trial 0" not in text


def test_a_ticket_that_wins_is_praised(closed):
    _, summary = closed((74.0, 24), (68.0, 5), (73.4, 12))
    assert (summary.verdict.kind, summary.selected.beaten) == ("ship", False)
    text = printed(print_table, summary)
    assert PRAISE.search(text)
    assert "* trial 0" in text


@pytest.mark.parametrize(
    ("figures", "start"),
    [((69.5, 7), "Keep the dense model: "), ((74.0, 24), "Ship t0: "), ((74.0, 14), "Search on: ")],
)
def test_the_verdict_comes_first_and_fits_80_columns(figures, start, closed):
    results, summary = closed(figures, (68.0, 5), (73.4, 12))
    lines = printed(print_table, summary).splitlines()
    wrapped = [line.rstrip() for line in lines[: next(i for i, line in enumerate(lines) if "2 trials (" in line)]]
    assert " ".join(wrapped) == summary.verdict.sentence
    assert wrapped[0].startswith(start)
    assert max(map(len, wrapped)) <= 80
    pages = write_report(results.folder, ())
    first = pages.markdown.read_text(encoding="utf-8").splitlines()[2]
    assert first.startswith(f"**{start}")
    assert f'<p class="verdict {summary.verdict.kind}">{start}' in pages.html.read_text(encoding="utf-8")
