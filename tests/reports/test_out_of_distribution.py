import pytest

from tests.reports.conftest import make_outcome, make_summary, make_trial, make_twin
from tests.reports.test_table import drawn, row_of
from tune_tickets.reports.comparisons import detectable_differences, ood_claims, ood_comparisons
from tune_tickets.reports.table import groups, rows
from tune_tickets.results.records import ControlRecord, OodComparison, Selection
from tune_tickets.results.statistics import detectable, detectable_paired

# 20 rows: the ticket alone is right on 9, the dense model alone on 1, both on 5, none on 5.
OURS = make_twin(right=[True] * 14 + [False] * 6)
THEIRS = make_twin(right=[False] * 9 + [True] * 6 + [False] * 5)


def test_twins_are_compared_on_the_same_rows_only():
    (found,) = ood_comparisons(make_outcome(ood=[OURS]), {"dense": make_outcome(ood=[THEIRS])})
    assert (found.other, found.twin, found.difference) == ("dense", "hans", pytest.approx(40.0))
    # 2 · (C(10,0) + C(10,1)) / 2^10
    assert found.p_value == pytest.approx(22 / 1024)
    assert found.distinguishable
    elsewhere = make_twin(right=THEIRS.right, sample="other rows")
    assert ood_comparisons(make_outcome(ood=[OURS]), {"dense": make_outcome(ood=[elsewhere])}) == ()


def test_what_the_rows_can_show_is_paired_where_the_rows_are_the_same():
    outcome = make_outcome(84.4, ood=[OURS])
    clean, paired = detectable_differences(outcome, make_outcome(ood=[THEIRS]))
    assert (clean.figure, clean.rows, clean.paired) == ("clean", 256, False)
    assert clean.points == detectable(84.4, 256)
    assert (paired.figure, paired.rows, paired.paired) == ("ood/hans", 20, True)
    assert paired.points == detectable_paired(OURS.right, THEIRS.right)
    _, alone = detectable_differences(outcome, None)
    assert (alone.points, alone.paired) == (detectable(70.0, 20), False)


def summary_with(**changes):
    twin = make_twin(right=OURS.right, groups={"lexical_overlap": 12.5, "subsequence": 77.5})
    trial = make_trial(0, outcome=make_outcome(ood=[twin], notes=("gains on hans, but ...",)))
    dense = ControlRecord(kind="dense", seed=0, outcome=make_outcome(ood=[THEIRS]), stages=())
    return make_summary([trial], controls=(dense,), **changes)


def test_the_table_has_a_column_per_twin_and_group():
    text = drawn(summary_with(), 200)
    assert "ood hans" in text
    assert "Acc% [95%]" in text
    assert "lexical_overlap" in text
    assert "70.0 [60.0-80.0]             12.5         77.5" in row_of(text, "trial 0")[0]
    assert "30.0 [20.0-40.0]                -            -" in row_of(text, "dense")[0]
    assert "trial 0: gains on hans, but ..." in text
    assert "ood" not in drawn(make_summary([make_trial(0)]), 200).split("obj.:")[0]


def test_sentences_say_what_was_seen_compared_and_detectable():
    comparison = OodComparison(other="dense", twin="hans", difference=40.0, p_value=22 / 1024, distinguishable=True)
    summary = summary_with(
        uses_ood_information=True,
        detectable=detectable_differences(make_outcome(84.4, ood=[OURS]), make_outcome(ood=[THEIRS])),
    )
    summary = summary.model_copy(
        update={"selected": Selection(trial="t0", ticket="ticket", reason="Best.", ood=(comparison,))}
    )
    mark, compared, shown = (text for _, text in ood_claims(summary))
    assert mark.startswith("uses_ood_information")
    assert compared == "ood/hans (accuracy): t0 is 40.0 points above dense (p = 0.021)."
    assert "clean 10.0 points (256 rows), ood/hans" in shown
    assert "(20 rows, paired)" in shown
    assert mark in drawn(summary, 120)
    assert list(ood_claims(make_summary([make_trial(0)]))) == []


def test_beside_a_twin_measured_by_weighted_f1_the_task_is_measured_so_too():
    outcome = make_outcome(84.4, ood=[make_twin("paws", metric="weighted_f1")])
    outcome = outcome.model_copy(update={"clean": outcome.clean.model_copy(update={"weighted_f1": 77.7})})
    assert outcome.metrics()["weighted_f1"] == 77.7
    shown, *_ = rows(make_summary([make_trial(0, outcome=outcome)]), top=1)
    own, *_ = groups([shown], "±")
    assert [column.header[1] for column in own] == ["method", "obj.", "Clean%", "F1%"]
    assert own[-1].cell(shown) == "77.7"
