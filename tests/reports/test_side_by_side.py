"""Finished experiments in one table: what shares a column, what is tested, what is only stated."""

import io
from math import comb

import pytest
from rich.console import Console

from tests.reports.conftest import BASELINES, make_attack, make_cost, make_outcome, make_summary, make_trial
from tune_tickets.errors import TicketsError
from tune_tickets.reports.side_by_side import comparison_markdown, print_comparison, read_finished, side_by_side
from tune_tickets.results.records import ControlRecord, Selection
from tune_tickets.results.summary import write_summary

EARLYROBUST = """\
name: one
seed: 0
method: {kind: earlyrobust, gamma: {uniform: [0.05, 0.2]}, adversary: {kind: freelb, steps: 2}}
task: {rows: {train: 600}}
tracking: {mlflow: true}
"""
ROBUSTT = """\
name: two
seed: 0
method: {kind: robustt, sparsity: {choice: [0.1, 0.3]}, adversary: {kind: freelb, steps: 3}}
task: {rows: {train: 600}}
tracking: {mlflow: false}
"""


@pytest.fixture
def folder(tmp_path):
    """Writes a results folder."""

    def make(name, *attacks, yaml=EARLYROBUST, clean="clean rows", outcome=None, **changes):
        outcome = outcome or make_outcome(attacks=attacks, sample=clean)
        control = ControlRecord(kind="dense", seed=0, outcome=make_outcome(86.0, attacks, sample=clean), stages=())
        trial = make_trial(3, outcome=outcome, cost=make_cost())
        summary = make_summary([trial, make_trial(0)], selected="t3", controls=(control,), **changes)
        write_summary(summary, tmp_path / name)
        (tmp_path / name / "config.yaml").write_text(yaml, encoding="utf-8")
        return tmp_path / name

    return make


def printed(experiments, width=160):
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    print_comparison(experiments, side_by_side(experiments), console)
    return console.file.getvalue()


def test_winners_and_controls_stand_in_one_table_under_the_labels_of_their_experiments(folder):
    text = printed(read_finished([folder("one", make_attack()), folder("two", make_attack(aua=31.5))]))
    rows = [line[2:].split("  ")[0] for line in text.splitlines() if "[15.8-32.2]" in line]
    assert rows == ["A trial 3", "A dense", "B trial 3", "B dense"]
    assert "A: demo in " in text
    assert "one (finished)" in text


def test_winners_on_the_same_rows_are_tested_in_pairs(folder):
    # Eight rows only A survived, one only B: twice the binomial tail P(X <= 1), n = 9.
    ours, theirs = [True] * 8 + [False, True], [False] * 8 + [True, True]
    experiments = read_finished(
        [folder("one", make_attack(aua=90.0, survived=ours)), folder("two", make_attack(aua=20.0, survived=theirs))]
    )
    (found,) = side_by_side(experiments).comparisons
    assert (found.one, found.other, found.threat, found.difference) == ("A", "B", "textfooler/minilm", 70.0)
    assert found.p_value == pytest.approx(2 * (comb(9, 0) + comb(9, 1)) / 2**9)
    text = printed(experiments)
    assert "the ticket of A is 70.0 points above that of B (p = 0.039)." in text
    assert "These rows also steered the searches" in text


def test_every_pair_of_three_experiments_is_tested(folder):
    experiments = read_finished([folder(name, make_attack()) for name in ("one", "two", "three")])
    assert [(c.one, c.other) for c in side_by_side(experiments).comparisons] == [("A", "B"), ("A", "C"), ("B", "C")]


def test_different_threat_models_of_one_name_never_share_a_column_and_it_is_said(folder):
    one, two = make_attack(fingerprint="aaaaaaaa11", aua=23.0), make_attack(fingerprint="bbbbbbbb22", aua=91.0)
    experiments = read_finished([folder("one", one), folder("two", two)])
    found = side_by_side(experiments)
    assert found.comparisons == ()
    (note,) = found.notes
    assert note.startswith("textfooler/minilm is not the same threat model everywhere (A: aaaaaaaa; B: bbbbbbbb)")
    text = printed(experiments)
    header = next(line for line in text.splitlines() if "textfooler/minilm aaaaaaaa" in line)
    theirs = next(line for line in text.splitlines() if "B trial 3" in line)
    assert theirs.index("91.0") >= header.index("textfooler/minilm bbbbbbbb") - 16 > theirs.index(" - ")


def test_other_rows_or_rows_that_are_not_named_give_a_note_in_place_of_a_test(folder):
    experiments = read_finished(
        [
            folder("one", make_attack(sample="x"), clean="c"),
            folder("two", make_attack(sample="y"), clean="d"),
            folder("old", make_attack(sample=""), clean=""),
        ]
    )
    found = side_by_side(experiments)
    assert found.comparisons == ()
    assert found.notes[:2] == (
        "Clean%: A and B were measured on different rows.",
        "textfooler/minilm: A and B were measured on different rows, so there is no paired test of them.",
    )
    assert "textfooler/minilm: B and C do not both say which rows they were measured on, so" in " ".join(found.notes)


def test_an_experiment_without_a_winner_or_end_says_so(folder):
    nothing = Selection(trial=None, ticket=None, reason="None of the 2 measured tickets may win.")
    path = folder("two", make_attack(), status="interrupted")
    experiments = read_finished([folder("one", make_attack()), path])
    assert (
        "B was interrupted before all its trials were done: more trials could find better tickets."
        in side_by_side(experiments).notes
    )
    write_summary(experiments[1].summary.model_copy(update={"selected": nothing}), path)
    experiments = read_finished([experiments[0].folder, path])
    assert "B has no winner: None of the 2 measured tickets may win." in side_by_side(experiments).notes
    assert side_by_side(experiments).comparisons == ()
    assert [model.name for model in side_by_side(experiments).models] == ["trial 3", "dense", "dense"]


def test_settings_that_differ_are_listed_with_the_winners_values(folder):
    experiments = read_finished([folder("one", make_attack()), folder("two", make_attack(), yaml=ROBUSTT)])
    differences = side_by_side(experiments).differences
    assert differences == {
        "method.kind": {"A": "earlyrobust", "B": "robustt"},
        "method.gamma": {"A": {"uniform": [0.05, 0.2]}},
        "method.adversary.steps": {"A": 2, "B": 3},
        "method.sparsity": {"B": {"choice": [0.1, 0.3]}},
    }
    narrow = printed(experiments, 40)
    assert "…" not in narrow[narrow.index("What differs") :]
    text = printed(experiments)
    assert "2 more settings exist only in some of the experiments, such as method.gamma" in text
    same = read_finished(
        [experiments[0].folder, folder("again", make_attack(), yaml=EARLYROBUST.replace("0.2", "0.3"))]
    )
    # The winners' gamma is 0.1.
    assert "0.1 of uniform [0.05, 0.2]" in printed(same)
    assert "0.1 of uniform [0.05, 0.3]" in printed(same)


def test_costs_are_relative_to_the_baselines_of_their_own_experiment(folder):
    halved = tuple(baseline.model_copy(update={"passes": baseline.passes / 2}) for baseline in BASELINES)
    one, two = (
        folder("one", make_attack(), cost_baselines=BASELINES),
        folder("two", make_attack(), cost_baselines=halved),
    )
    text = printed(read_finished([one, two]), width=250)
    costs = {line.split()[1]: line.split()[-6:] for line in text.splitlines() if line[:3] in ("* A", "* B")}
    # 3 passes of 12 and 9, or of 6 and 4.5; 20 seconds of 80.
    seconds = ["0.25", "0.25"]
    assert costs == {"A": ["0.25", "0.25", "0.33", "0.33", *seconds], "B": ["0.50", "0.50", "0.67", "0.67", *seconds]}
    assert "A: PGD is trial 3: 3 epochs of PGD-3, 12 passes. FreeLB was not run" in text


def test_the_markdown_page_has_one_table_with_whole_headers(folder):
    experiments = read_finished([folder("one", make_attack()), folder("two", make_attack())])
    page = comparison_markdown(experiments, side_by_side(experiments))
    header, rule, first, *_ = [line for line in page.splitlines() if line.startswith("|")]
    assert header == (
        "| model | method | obj. | Clean% | textfooler/minilm Aua% [95%] | textfooler/minilm Suc% | "
        "textfooler/minilm #Query | cut% heads | cut% neurons | cut% weights | params M | params total |"
    )
    assert rule.count("---") == header.count("|") - 1
    assert first.startswith(
        "| * A trial 3 | earlyrobust | 0.530 | 84.4 ±4.5 | 23.0 [15.8-32.2] | 74.5 | 1023.4 | 16.7 |"
    )
    assert "- textfooler/minilm: the ticket of A is level with that of B (p = 1.000, 4 rows)." in page
    assert "All settings that they share are equal." in page


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_of_the_table_is_wider_than_the_console(folder, width):
    attacks = [make_attack(threat) for threat in ("textfooler/minilm", "textbugger/minilm")]
    experiments = read_finished([folder("one", *attacks, cost_baselines=()), folder("two", *attacks)])
    lines = printed(experiments, width).splitlines()
    assert max(len(line.rstrip()) for line in lines if "trial" in line or "dense" in line) <= width


def test_folders_that_are_no_results_are_errors_that_say_what_to_do(folder, tmp_path):
    good = folder("one", make_attack())
    with pytest.raises(TicketsError, match="two or more results folders"):
        read_finished([good])
    with pytest.raises(TicketsError, match="named twice"):
        read_finished([good, tmp_path / "one" / ".." / "one"])
    with pytest.raises(TicketsError, match=r"no summary\.json in .*empty: give the results folder of a search"):
        read_finished([good, tmp_path / "empty"])
    bare = folder("bare", make_attack())
    (bare / "config.yaml").unlink()
    with pytest.raises(TicketsError, match=r"no config\.yaml in .*bare"):
        read_finished([good, bare])
    assert read_finished([good / "summary.json", folder("two", make_attack())])[0].folder == good


def test_threat_models_of_one_name_stand_next_to_each_other(folder):
    mine, theirs = make_attack(fingerprint="mine1234"), make_attack(fingerprint="other123")
    one, two = folder("one", mine, make_attack("textbugger/minilm")), folder("two", theirs)
    header = next(line for line in printed(read_finished([one, two]), 250).splitlines() if "textfooler" in line)
    assert header.index("mine1234") < header.index("other123") < header.index("textbugger/minilm")
