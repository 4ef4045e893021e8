"""What tables, comparisons, pages and cards show of a suite of attacks."""

from math import comb

import pytest

from tests.reports.conftest import BOTH, make_attack, make_outcome, make_summary, make_trial
from tests.reports.test_side_by_side import folder  # noqa: F401 - a fixture
from tests.reports.test_table import drawn, row_of
from tune_tickets.export.card import _figures as card_table
from tune_tickets.reports.comparisons import comparisons, sentence
from tune_tickets.reports.pictures.evidence import Evidence, Measured
from tune_tickets.reports.pictures.front import front_panels
from tune_tickets.reports.side_by_side import read_finished, side_by_side
from tune_tickets.results.metrics import attacks_in, headline, objective_names
from tune_tickets.results.records import ControlRecord, SuiteFigures, TransferFigures

PRINTS = tuple(f"print-of-{threat}" for threat in BOTH)


def in_suite(survived, first=50.0, prints=PRINTS, clean=84.4, sample="rows"):
    """An outcome under a suite of two threat models."""
    accuracy = 100.0 * sum(survived) / len(survived)
    suite = SuiteFigures(
        threats=BOTH,
        fingerprints=prints,
        rows=len(survived),
        accuracy=accuracy,
        interval=(accuracy - 7.0, accuracy + 8.0),
        survived=tuple(survived),
        sample=sample,
    )
    attacks = (
        make_attack(BOTH[0], prints[0], first).model_copy(update={"after": ()}),
        make_attack(BOTH[1], prints[1], accuracy, survived).model_copy(update={"after": prints[:1]}),
    )
    return make_outcome(clean, attacks).model_copy(update={"suite": suite})


OURS, THEIRS = (True,) * 12 + (False,) * 4, (False,) * 10 + (True,) * 3 + (False,) * 3


def test_aua_is_that_of_the_suite_and_no_metric_looks_like_one_threat_alone():
    metrics = in_suite(OURS).metrics()
    assert (metrics["aua"], metrics["low/aua"], metrics["high/aua"]) == (75.0, 68.0, 83.0)
    after = [metrics[f"aua_after/{threat}"] for threat in BOTH]
    assert after == [50.0, 75.0]
    assert (metrics[f"low/aua_after/{BOTH[0]}"], metrics[f"high/aua_after/{BOTH[0]}"]) == (15.8, 32.2)
    assert not [name for name in metrics if name.startswith(("aua/", "low/aua/", "high/aua/"))]
    assert metrics[f"suc/{BOTH[1]}"] == 74.5
    assert attacks_in(metrics) == ["aua"]
    assert headline(metrics) == {"clean": 84.4, "aua": 75.0}

    plain = make_outcome().metrics()
    assert not [name for name in plain if "after" in name or name in ("low/aua", "high/aua")]
    assert attacks_in(plain) == [f"aua/{threat}" for threat in BOTH]
    assert "aua" not in headline(plain)


def test_the_suite_of_a_further_task_enters_the_mean_over_tasks():
    there = TransferFigures(name="other", outcome=in_suite(THEIRS), stages=())
    metrics = in_suite(OURS).model_copy(update={"transfers": (there,)}).metrics()
    assert metrics["transfer/other/aua"] == 100 * 3 / 16
    assert metrics["mean/aua"] == pytest.approx((75.0 + 100 * 3 / 16) / 2)


def test_an_objective_names_the_suite_as_aua_and_no_single_threat():
    names = objective_names(BOTH, (), ("other",), suite=True)
    assert {"aua", "mean/aua", "transfer/other/aua"} <= set(names)
    assert not [name for name in names if "aua/" in name or "aua_after" in name]
    assert f"aua/{BOTH[0]}" in objective_names(BOTH, (), ())


def test_the_table_shows_the_suite_and_what_is_left_after_each_threat():
    summary = make_summary(
        [make_trial(0, outcome=in_suite(OURS))],
        controls=(ControlRecord(kind="dense", seed=0, outcome=in_suite(THEIRS, 30.0), stages=()),),
    )
    text = drawn(summary, 220)
    (row,) = row_of(text, "trial 0")
    attack = ["74.5", "1023.4"]
    shown = ["75.0", "[68.0-83.0]", "50.0", "[15.8-32.2]", *attack, "75.0", "[15.8-32.2]", *attack]
    assert row.split()[6 : 6 + len(shown) + 1][-len(shown) :] == shown
    (header,) = [line for line in text.splitlines() if f"after {BOTH[0]}" in line]
    assert header.index("suite") < header.index(f"after {BOTH[0]}") < header.index(f"after {BOTH[1]}")
    assert "suite" not in drawn(make_summary([make_trial(0)]), 220).split("obj.: objective")[0]


def test_suites_and_single_attacks_never_share_a_column():
    other = ("changed", PRINTS[1])
    outcomes = [in_suite(OURS), in_suite(OURS, prints=other), make_outcome()]
    summary = make_summary([make_trial(number, outcome=outcome) for number, outcome in enumerate(outcomes)])
    rows = [row_of(drawn(summary, 400), f"trial {number}")[0] for number in range(3)]
    assert [row.count("[68.0-83.0]") for row in rows] == [1, 1, 0]
    places = [row.find("[68.0-83.0]") for row in rows[:2]]
    assert places[0] != places[1]
    # Two suites, four columns after a threat (the same threat after another one is another figure), two alone.
    assert [row.count("1023.4") for row in rows] == [2, 2, 2]
    assert len({row.find("1023.4") for row in rows}) == 3


def test_winner_and_control_are_compared_on_the_rows_that_survive_the_whole_suite():
    [found] = comparisons(in_suite(OURS), {"dense": in_suite(THEIRS, 99.0)})
    # Ours alone survives 10 rows, theirs alone survives 1.
    expected = 2 * sum(comb(11, k) for k in range(2)) / 2**11
    assert (found.threat, found.other) == ("suite", "dense")
    assert found.p_value == pytest.approx(expected)
    assert found.difference == pytest.approx(100 * 9 / 16)
    assert found.distinguishable
    assert sentence(found, "t1").startswith("suite: t1 is 56.2 points above dense (p")


@pytest.mark.parametrize(
    "other",
    [in_suite(THEIRS, prints=PRINTS[::-1]), in_suite(THEIRS, sample="others"), make_outcome()],
    ids=["another suite", "other rows", "no suite"],
)
def test_what_was_measured_differently_is_not_compared(other):
    assert comparisons(in_suite(OURS), {"dense": other}) == ()
    assert comparisons(other, {"dense": in_suite(OURS)}) == ()


def test_compare_tests_suites_and_warns_of_different_ones(folder):  # noqa: F811
    def finished(*outcomes):
        folders = [folder(f"{id(outcome)}", outcome=outcome) for outcome in outcomes]
        return side_by_side(read_finished(folders))

    same = finished(in_suite(OURS), in_suite(THEIRS))
    assert [(found.one, found.other, found.threat) for found in same.comparisons] == [("A", "B", "suite")]
    assert not [note for note in same.notes if "suite" in note]
    mixed = finished(in_suite(OURS), make_outcome())
    assert mixed.comparisons == ()
    assert any("different suites" in note for note in mixed.notes)


def test_the_card_names_the_figures_for_what_they_are():
    text = card_table(in_suite(OURS)).replace("\\", "")
    assert "accuracy under attack, % (all attacks, one after the other)" in text
    assert "75.0 [68.0-83.0]" in text
    assert f"accuracy after {BOTH[0]}, %" in text
    assert f"accuracy under {BOTH[0]}" not in text


def test_pictures_take_the_suite_as_their_one_attack():
    model = Measured("t0", "trial", "earlyrobust", in_suite(OURS).metrics(), own=True)
    [(title, [point])] = front_panels(Evidence((model,)))
    assert title == "suite of attacks, select rows"
    assert (point.aua, point.aua_bar) == (75.0, (68.0, 83.0))
