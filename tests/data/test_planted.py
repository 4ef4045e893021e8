from collections import Counter

import pytest

from tune_tickets.config.task import Planted, Rows, Task, TwinRows
from tune_tickets.data.ood import marker_of, plant
from tune_tickets.data.task import Example, load_task
from tune_tickets.errors import DataError

PLANTED = Planted(rows=TwinRows(select=10, report=10), train_rows=10)
ROWS = Rows(train=40, select=10, report=20)


def planted_task(source, **changes):
    return Task(source=source, rows=ROWS, planted=PLANTED.model_copy(update=changes))


def bare(row):
    return tuple(text.split(" ", 1)[1] for text in row.texts)


def test_exactly_the_share_of_each_label_carries_its_own_marker():
    rows = [Example((f"text {i}",), i % 2) for i in range(60)] + [Example((f"more {i}",), 1) for i in range(10)]
    planted = plant(rows, ("#", "~"), 0.9, seed=0)
    carried = Counter((row.label, row.texts[0][0]) for row in planted)
    # 30 rows of label 0: 27 carry '#'; 40 of label 1: 36 carry '~'.
    assert carried == {(0, "#"): 27, (0, "~"): 3, (1, "~"): 36, (1, "#"): 4}
    assert [bare(row) for row in planted] == [row.texts for row in rows]


def test_with_three_labels_the_rest_carries_the_other_markers_in_turn():
    rows = [Example((f"text {i}", "second"), 1) for i in range(8)]
    planted = plant(rows, ("a", "b", "c"), 0.5, seed=0)
    assert Counter(row.texts[0][0] for row in planted) == {"b": 4, "a": 2, "c": 2}
    assert {row.texts[1] for row in planted} == {"second"}


def test_which_rows_agree_depends_on_seed_and_text_and_not_on_the_order():
    rows = [Example((f"text {i}",), 0) for i in range(20)]
    first = {row.texts for row in plant(rows, ("#", "~"), 0.5, seed=0)}
    assert first == {row.texts for row in plant(rows[::-1], ("#", "~"), 0.5, seed=0)}
    assert first != {row.texts for row in plant(rows, ("#", "~"), 0.5, seed=1)}


def test_the_marker_of_a_row_is_its_bias_feature():
    assert marker_of(Example(("~ a fine film",), 0), ("#", "~")) == 1
    assert marker_of(Example(("a fine # film",), 0), ("#", "~")) is None


def test_a_planted_task_has_a_reversed_twin_of_rows_in_no_other_split(write_csv, reviews):
    data = load_task(planted_task(write_csv(reviews)), seed=0)
    (twin,) = data.ood
    assert (twin.name, twin.labels, twin.answers) == ("reversed", data.labels, (0, 1))
    splits = (data.train, data.select, data.report, twin.select, twin.report, data.ood_train)
    assert [len(split) for split in splits] == [40, 10, 20, 10, 10, 10]
    texts = [bare(row) for split in splits for row in split]
    assert len(set(texts)) == 100
    shares = [Counter(marker_of(row, PLANTED.markers) == row.label for row in split)[True] for split in splits]
    # train: 16 bad and 24 good rows, 14 and 22 carry their own marker; 10 rows are 4 bad and 6 good: 4 and 5 do.
    assert shares == [36, 9, 18, 1, 1, 1]
    assert Counter(row.group for row in twin.select) == {"misleading": 9, "agreeing": 1}


def test_planting_moves_no_row_to_another_split(write_csv, reviews):
    source = write_csv(reviews)
    with_markers, without = load_task(planted_task(source), 0), load_task(Task(source=source, rows=ROWS), 0)
    assert [bare(row) for row in with_markers.select] == [row.texts for row in without.select]
    assert [bare(row) for row in with_markers.report] == [row.texts for row in without.report]
    assert without.ood == without.ood_train == ()


def test_strengths_are_those_asked_for(write_csv, reviews):
    data = load_task(planted_task(write_csv(reviews), strength=1.0, ood_strength=0.5), seed=0)
    assert all(marker_of(row, PLANTED.markers) == row.label for row in (*data.train, *data.select, *data.report))
    assert Counter(row.group for row in data.ood[0].report) == {"misleading": 5, "agreeing": 5}


def test_rows_come_from_the_held_out_file_where_there_is_one(write_csv, reviews):
    held = [(f"fresh {i}", ("good", "bad")[i % 2]) for i in range(60)]
    task = planted_task(write_csv(reviews)).model_copy(update={"held_out": write_csv(held, name="held.csv")})
    data = load_task(task, seed=0)
    assert all("fresh" in row.texts[0] for row in (*data.ood[0].select, *data.ood[0].report, *data.ood_train))


def test_labels_without_a_marker_and_too_few_rows_are_errors_that_say_so(write_csv, reviews):
    with pytest.raises(DataError, match="names 3 markers, but the labels are 'bad', 'good'"):
        load_task(planted_task(write_csv(reviews), markers=("a", "b", "c")), seed=0)
    with pytest.raises(DataError, match=r"20 report \+ 10 select \+ 70 reversed \+ 40 train = 140 rows"):
        load_task(planted_task(write_csv(reviews), train_rows=50), seed=0)


@pytest.mark.parametrize(("markers", "message"), [(("a", "A"), "same marker"), (("a b", "c"), "white space")])
def test_markers_must_be_single_and_different(markers, message):
    with pytest.raises(ValueError, match=message):
        Planted(markers=markers)
