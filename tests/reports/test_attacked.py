"""The metrics of the verb `attack` on consoles of several widths."""

import io
import re

import pytest
from rich.console import Console

from tests.reports.conftest import make_attack
from tune_tickets.attacks.records import Measurement
from tune_tickets.reports.attacked import print_comparisons, print_figures, print_texts
from tune_tickets.results.records import Comparison


def measurement(threat="textfooler/minilm", model="a.safetensors", **changes):
    figures = make_attack(threat, fingerprint=f"print-{threat[:10]}").model_copy(update={"similarity": 0.912} | changes)
    return Measurement(
        model=model,
        figures=figures,
        resources={"toolkit": "textattack"},
        clean_interval=(84.0, 94.0),
        seconds=12.34,
        queries_per_second=812.3,
        substitutions=(),
    )


def printed(show, *arguments, width=100):
    stream = io.StringIO()
    show(*arguments, Console(file=stream, width=width))
    return stream.getvalue()


def test_every_figure_stands_in_the_column_of_its_threat_model():
    rejected = {"candidates": 4321, "rejected": {"sentence similarity": 62.5}}
    shown = printed(print_figures, [measurement(**rejected), measurement("textbugger/minilm", similarity=None)])
    lines = {name: cells for name, *cells in (re.split(r"\s{2,}", line.strip()) for line in shown.splitlines())}
    assert lines["Clean%"] == ["90.0 ±5.0", "90.0 ±5.0"]
    assert lines["Aua%"] == ["23.0 [15.8-32.2]", "23.0 [15.8-32.2]"]
    assert lines["Suc%"] == ["74.5", "74.5"]
    assert lines["#Query"] == ["1023.4", "1023.4"]
    assert lines["words changed %"] == ["12.0", "12.0"]
    assert lines["similarity"] == ["0.912", "-"]
    assert lines["skipped (wrong before)"] == ["0", "0"]
    assert lines["candidates"] == ["4321", "0"]
    assert lines["% rejected: sentence similarity"] == ["62.5", "-"]
    assert lines["seconds"] == ["12.3", "12.3"]
    assert lines["queries/s"] == ["812", "812"]
    assert lines["fingerprint"] == ["print-textfooler", "print-textbugger"]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_number_is_cut_whatever_the_width(width):
    many = [measurement(f"threat{index}/minilm") for index in range(5)]
    shown = printed(print_figures, many, width=width)
    assert shown.count("23.0 [15.8-32.2]") == 5
    assert "…" not in shown
    assert max(len(line) for line in shown.splitlines() if "Aua%  " in line) <= width


def test_two_models_go_by_letters_and_are_compared_in_words():
    shown = printed(print_figures, [measurement(), measurement(model="other folder")])
    assert "A = a.safetensors\nB = other folder\n" in shown
    assert "do not show which model is faster" in shown
    assert "faster" not in printed(print_figures, [measurement()])
    difference = Comparison(
        other="other folder", threat="textfooler/minilm", difference=12.5, p_value=0.0123, distinguishable=True
    )
    shown = printed(print_comparisons, [difference])
    assert "A is 12.5 points above B (p = 0.012)." in shown


def test_texts_stand_below_their_headings_and_pairs_name_their_columns():
    single = ("row 3: successful", [("text", [("a ", "a "), ("good", "fine")])])
    pair = ("row 4: failed", [("premise", [("p", "p")]), ("[b]hypothesis", [("h", "g")])])
    shown = printed(print_texts, [single, pair], "textfooler/minilm on a")
    assert "row 3: successful\n  a [[good -> fine]]\n" in shown
    assert "  premise: p\n  [b]hypothesis: [[h -> g]]\n" in shown
