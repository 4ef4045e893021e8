import io

import pytest
from rich.console import Console

from tests.reports.conftest import BASELINES, BOTH, make_attack, make_cost, make_outcome, make_summary, make_trial
from tune_tickets.reports.table import print_table, rows, winner_and_controls
from tune_tickets.results.records import ControlRecord, MaskedHead, Selection, StageUse, TransferFigures

NUMBERS = ("84.4 ±4.5", "23.0 [15.8-32.2]", "74.5", "1023.4", "16.7", "30.0", "12.5", "21.35", "33.00", "0.500")


def drawn(summary, width, top=10, terminal=False, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None, legacy_windows=False)
    print_table(summary, console, top)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def row_of(text, name):
    return [line for line in text.splitlines() if line.lstrip("*+x ").startswith(name + " ")]


@pytest.mark.parametrize("width", [30, 80, 120, 200])
def test_every_number_stands_whole_at_any_width(width):
    text = drawn(make_summary([make_trial(0)]), width)
    for number in NUMBERS:
        assert number in text
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_the_table_is_wider_than_the_console(width):
    text = drawn(make_summary([make_trial(number) for number in range(12)]), width, terminal=True)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width


def test_at_120_columns_two_threats_fit_beside_the_clean_accuracy():
    rows = row_of(drawn(make_summary([make_trial(0)]), 120), "trial 0")
    assert [row.count("23.0 [15.8-32.2]") for row in rows] == [2, 0]
    assert "84.4 ±4.5" in rows[0]
    assert "21.35" in rows[1]


def test_at_80_columns_a_threat_stands_whole_beside_others_or_below_with_the_names_repeated():
    rows = row_of(drawn(make_summary([make_trial(0)]), 80), "trial 0")
    assert [row.count("23.0 [15.8-32.2]  74.5  1023.4") for row in rows] == [1, 1, 0]
    assert "earlyrobust  0.500  84.4 ±4.5" in rows[0]


def test_the_columns_are_those_of_the_papers_main_tables():
    trials = [make_trial(number, cost=make_cost()) for number in (0, 3)]
    (row,) = row_of(drawn(make_summary(trials, cost_baselines=BASELINES), 220), "trial 0")
    attack = ["23.0", "[15.8-32.2]", "74.5", "1023.4"]
    sizes = ["16.7", "30.0", "12.5", "21.35", "33.00"]
    costs = ["0.25", "0.25", "0.33", "0.33", "0.25", "0.25"]
    assert row.split()[3:] == ["earlyrobust", "0.500", "84.4", "±4.5", *attack, *attack, *sizes, *costs]


def test_training_cost_is_relative_to_pgd_and_freelb_with_and_without_the_search():
    # Of PGD: 3 / 12 and (3 + 1.5) / 12 passes, 20 / 80 and (20 + 12) / 80 seconds; of FreeLB: 3 / 9 and 4.5 / 9 passes.
    ticket = make_trial(0, cost=make_cost((3.0, 20.0), search=(1.5, 12.0)))
    pgd = make_trial(3, title="PGD", cost=make_cost((12.0, 80.0)))
    text = drawn(make_summary([ticket, pgd], cost_baselines=BASELINES), 100)
    header = next(line for line in text.splitlines() if "passes/PGD" in line)
    assert header.split() == ["passes/PGD", "passes/FreeLB", "seconds/PGD"]
    assert row_of(text, "trial 0")[-1].split()[3:] == ["0.25", "0.38", "0.33", "0.50", "0.25", "0.40"]
    assert row_of(text, "trial 3")[-1].split()[2:] == ["1.00", "1.00", "1.33", "1.33", "1.00", "1.00"]
    assert row_of(text, "dense")[-1].split()[1:] == ["-"] * 6
    assert "PGD is trial 3: 3 epochs of PGD-3, 12 passes." in text
    assert "FreeLB was not run: computed for 3 epochs of FreeLB-3, 9 passes." in text


def test_a_search_of_an_older_release_has_no_columns_of_cost():
    assert "passes" not in drawn(make_summary([make_trial(0)]), 100)


def test_the_best_of_every_method_is_shown_however_many_trials_are_better():
    trials = [make_trial(number) for number in range(5, 12)]
    trials += [make_trial(number, title="robustt") for number in (1, 2)]
    text = drawn(make_summary(trials, selected="t11"), 100, top=3)
    shown = {line.lstrip("* ").split("  ")[0] for line in text.splitlines() if "84.4 ±4.5" in line}
    assert shown == {"trial 11", "trial 10", "trial 9", "trial 2"}


def test_the_selected_trial_comes_first_then_the_best_objectives_then_controls():
    text = drawn(make_summary([make_trial(number) for number in range(4)], selected="t1"), 120)
    names = [line.lstrip("*+x ").split("  ")[0] for line in text.splitlines() if " [15.8-32.2]" in line]
    assert names == ["trial 1", "trial 3", "trial 2", "trial 0", "dense"]
    assert row_of(text, "trial 1")[0].startswith("* ")


def test_only_the_best_are_shown_and_it_is_said():
    text = drawn(make_summary([make_trial(number) for number in range(12)], selected="t11"), 120, top=3)
    assert "12 trials (12 complete); the first 3 are shown" in text
    assert [bool(row_of(text, f"trial {number}")) for number in (11, 10, 9, 8)] == [True, True, True, False]


def test_a_ticket_that_may_not_win_is_marked_with_the_reason():
    flag = "near-constant predictor: 98% of rows get one label"
    barred = make_trial(1, feasible=False, values=(-0.02,), outcome=make_outcome(57.0, flags=[flag]))
    text = drawn(make_summary([make_trial(0), barred]), 120)
    assert row_of(text, "trial 1")[0].startswith("x ")
    assert f"x trial 1 is ruled out: {flag}" in text


def test_a_note_is_shown_below_the_table_and_hides_no_reason():
    note = "trained on the substitutes of words/near50-forms"
    marked = make_trial(0, outcome=make_outcome(notes=(note,)))
    barred = make_trial(1, outcome=make_outcome(notes=(note,)), feasible=False)
    by_name = {row.name: row.objections for row in rows(make_summary(trials=[marked, barred]), 10)}
    assert by_name["trial 0"] == (note,)
    assert by_name["trial 1"] == ("it does not meet the objective's conditions", note)
    assert note in drawn(make_summary(trials=[marked]), 120)


def test_trials_that_did_not_finish_are_counted_but_have_no_row():
    lost = make_trial(1, status="failed", outcome=None, values=None, error="boom")
    text = drawn(make_summary([make_trial(0), lost]), 120)
    assert "2 trials (1 complete, 1 failed)" in text
    assert row_of(text, "trial 1") == []


def test_the_front_is_marked():
    text = drawn(make_summary([make_trial(0), make_trial(1)], front=("t0", "t1")), 120)
    assert row_of(text, "trial 1")[0].startswith("+ ")
    assert "on the front" in text


def test_figures_of_different_fingerprints_never_share_a_column():
    control = ControlRecord(
        kind="dense", seed=0, outcome=make_outcome(attacks=[make_attack(fingerprint="other123", aua=99.0)]), stages=()
    )
    trial = make_trial(0, outcome=make_outcome(attacks=[make_attack(fingerprint="mine1234")]))
    text = drawn(make_summary([trial], controls=(control,)), 200)
    assert f"{BOTH[0]} mine1234" in text
    assert f"{BOTH[0]} other123" in text
    (row,) = row_of(text, "dense")
    assert row.index(" - ") < row.index("99.0")


def test_reason_and_comparisons_follow_in_plain_sentences():
    text = drawn(make_summary([make_trial(0)]), 80)
    assert "Trial 0 has the best objective." in text
    # Piped: one line per sentence, however long.
    assert "t0 is 6.0 points above dense (p = 0.210: these rows cannot settle a difference of this size)." in text


def test_a_search_without_a_result_has_only_sentences():
    nothing = Selection(trial=None, ticket=None, reason="No trial finished.")
    text = drawn(make_summary([], selected=None, controls=()).model_copy(update={"selected": nothing}), 80)
    assert text.split("\n")[0] == "demo: 0 trials (none)"
    assert "No trial finished." in text
    assert "Clean%" not in text


def test_an_ascii_only_console_is_no_error():
    text = drawn(make_summary([make_trial(0)]), 120, encoding="ascii")
    assert "84.4 +-4.5" in text


def test_random_controls_carry_their_seed():
    random = ControlRecord(kind="random", seed=3, outcome=make_outcome(), stages=())
    text = drawn(make_summary([make_trial(0)], controls=(random,)), 120)
    assert row_of(text, "random-3")


def test_random_tickets_like_a_trial_stand_in_the_table_where_that_does():
    trials = [make_trial(number, method="robustt", title="robustt") for number in (0, 1, 2)]
    controls = tuple(
        ControlRecord(kind="random", seed=0, like=like, outcome=make_outcome(), stages=())
        for like in (None, "t1", "t2")
    )
    summary = make_summary(trials, controls=controls)
    assert [row.name for row in rows(summary, 2)] == ["trial 0", "trial 2", "random-0", "random-t2-0"]
    assert [row.name for row in winner_and_controls(summary)] == ["trial 0", "random-0"]


def test_a_vector_objective_shows_all_its_values():
    text = drawn(make_summary([make_trial(0, values=(0.844, 0.23))]), 120)
    assert "0.844, 0.230" in text


def on_two_tasks(clean, there, **changes):
    transfer = TransferFigures(name="imdb", outcome=make_outcome(there), stages=())
    return make_outcome(clean).model_copy(update={"transfers": (transfer,), **changes})


def test_several_tasks_stand_in_a_table_task_by_metric_with_the_controls_beside():
    head = MaskedHead(top1=12.5, top10=40.0, fitted=True)
    trial = make_trial(0, outcome=on_two_tasks(81.0, 71.5, masked_head=head))
    control = ControlRecord(kind="dense", seed=0, outcome=on_two_tasks(82.0, 72.5), stages=())
    use = {"mlm_search": StageUse(asked=4, computed=1, seconds=9.0)}
    text = drawn(make_summary([trial], controls=(control,), stages=use), 200)
    lines = [line.lstrip("* ") for line in text.splitlines()]
    shown = [line.split("  ")[0] for line in lines if line.startswith(("task: ", "imdb: "))]
    assert shown == ["task: trial 0", "task: dense", "imdb: trial 0", "imdb: dense"]
    assert "71.5" in row_of(text, "imdb: trial 0")[0]
    assert "72.5" in row_of(text, "imdb: dense")[0]
    assert "mlm_search: 1 computed for 4 trials; none was repeated for a task." in text
    assert "no masked-LM head: one was fitted before the search. It guesses 12.5% of hidden tokens, 40.0%" in text
    assert "every task" not in drawn(make_summary([make_trial(0)]), 200)


def test_a_checkpoint_that_brought_its_head_is_named_so():
    head = MaskedHead(top1=61.0, top10=80.0, fitted=False)
    trial = make_trial(0, outcome=make_outcome().model_copy(update={"masked_head": head}))
    assert "used the checkpoint's own masked-LM head. It guesses 61.0%" in drawn(make_summary([trial]), 200)
