import dataclasses
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tune_tickets.config.task import Rows, Task
from tune_tickets.data.task import Dropped, Example, attack_sample, load_task
from tune_tickets.errors import DataError

SHARED = Path(os.environ.get("TUNE_TICKETS_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
SMALL = Rows(select=10, report=20)


def keys(*splits):
    return [tuple(" ".join(text.lower().split()) for text in row.texts) for split in splits for row in split]


def test_splits_have_the_sizes_asked_for_and_the_label_shares_of_the_source(write_csv, reviews):
    data = load_task(Task(source=write_csv(reviews), rows=SMALL), seed=0)
    assert data.labels == ("bad", "good")
    counts = [Counter(row.label for row in split) for split in (data.report, data.select, data.train)]
    assert counts == [{0: 8, 1: 12}, {0: 4, 1: 6}, {0: 28, 1: 42}]
    smaller = load_task(Task(source=write_csv(reviews), rows=Rows(train=35, select=10, report=20)), seed=0)
    assert Counter(row.label for row in smaller.train) == {0: 14, 1: 21}
    assert (smaller.report, smaller.select) == (data.report, data.select)


def test_every_row_keeps_its_text_and_label(write_csv, reviews):
    data = load_task(Task(source=write_csv(reviews), rows=SMALL), seed=0)
    found = [(row.texts[0], data.labels[row.label]) for row in (*data.train, *data.select, *data.report)]
    assert sorted(found) == sorted(reviews)


def test_no_text_stands_in_two_splits(write_csv, reviews):
    noisy = [
        *reviews,
        *((text.upper() + "  ", label) for text, label in reviews[:30]),
        ("twice", "good"),
        ("Twice", "bad"),
    ]
    data = load_task(Task(source=write_csv(noisy), rows=SMALL), seed=3)
    everything = keys(data.train, data.select, data.report)
    assert len(everything) == len(set(everything)) == 100
    assert ("twice",) not in everything
    assert data.dropped == Dropped(duplicates=30, conflicts=2)


def test_splits_depend_on_the_seed_and_not_on_the_order_of_the_file(write_csv, reviews):
    first = load_task(Task(source=write_csv(reviews), rows=SMALL), seed=0)
    shuffled = [*reviews, *((text.title(), label) for text, label in reviews[::7])]
    random.Random(1).shuffle(shuffled)
    again = load_task(Task(source=write_csv(shuffled, name="other.csv"), rows=SMALL), seed=0)
    assert keys(again.report) == keys(first.report)
    assert keys(again.select) == keys(first.select)
    assert keys(again.train) == keys(first.train)
    other = load_task(Task(source=write_csv(reviews), rows=SMALL), seed=1)
    assert set(keys(other.report)) != set(keys(first.report))


def test_an_added_row_moves_hardly_any_other(write_csv, reviews):
    before = load_task(Task(source=write_csv(reviews), rows=SMALL), seed=0)
    for i in range(10):
        after = load_task(Task(source=write_csv([*reviews, (f"new {i}", "good")]), rows=SMALL), seed=0)
        assert len(set(keys(before.report)) - set(keys(after.report))) <= 1
        assert len(set(keys(before.select)) - set(keys(after.select))) <= 2


def test_select_and_report_come_from_the_held_out_file_and_train_shares_no_text_with_it(write_csv, reviews):
    held = [
        *((f"fresh {i}", ("good", "bad")[i % 2]) for i in range(40)),
        *((text.upper(), label) for text, label in reviews[:9]),
    ]
    task = Task(source=write_csv(reviews), held_out=write_csv(held, name="held.csv"), rows=SMALL)
    data = load_task(task, seed=0)
    assert set(keys(data.select, data.report)) <= {(text.lower(),) for text, _ in held}
    assert sorted(keys(data.train)) == sorted((text,) for text, _ in reviews[9:])
    assert data.dropped == Dropped(held_out=9)


def test_numbers_can_be_given_names_in_class_order(write_csv, reviews):
    numbered = [(text, int(label == "good")) for text, label in reviews]
    plain = load_task(Task(source=write_csv(numbered), rows=SMALL), seed=0)
    named = load_task(Task(source=write_csv(numbered), rows=SMALL, labels=("worse", "better")), seed=0)
    assert plain.labels == ("0", "1")
    assert named.labels == ("worse", "better")
    assert named.train == plain.train


def test_the_order_of_task_labels_is_the_class_order(write_csv, reviews):
    data = load_task(Task(source=write_csv(reviews), rows=SMALL, labels=("good", "bad")), seed=0)
    assert Counter(row.label for row in data.report) == {0: 12, 1: 8}


def test_pairs_keep_both_columns_and_name_the_attacked_one(write_csv):
    rows = [("the same premise", f"claim {i}", "yes" if i % 2 else "no") for i in range(40)]
    source = write_csv(rows, header=("premise", "hypothesis", "label"))
    task = Task(source=source, text=("premise", "hypothesis"), attacked="hypothesis", rows=Rows(select=4, report=4))
    data = load_task(task, seed=0)
    assert (data.columns, data.attacked) == (("premise", "hypothesis"), "hypothesis")
    assert len(data.train) == 32
    assert all(row.texts[0] == "the same premise" and row.texts[1].startswith("claim") for row in data.train)


def test_a_single_text_column_is_the_attacked_one(write_csv, reviews):
    assert load_task(Task(source=write_csv(reviews), rows=SMALL), seed=0).attacked == "text"


def test_the_fingerprint_covers_train_and_select_and_not_the_report_rows(write_csv, reviews):
    data = load_task(Task(source=write_csv(reviews), rows=SMALL), seed=0)
    again = load_task(Task(source=write_csv(reviews[::-1], name="b.csv"), rows=SMALL), seed=0)
    assert (again.fingerprint, again.report_fingerprint) == (data.fingerprint, data.report_fingerprint)
    assert len(data.fingerprint) == 64
    row = data.train[0]
    changed = [
        {"train": (Example((row.texts[0] + "!",), row.label), *data.train[1:])},
        {"train": (Example(row.texts, 1 - row.label), *data.train[1:])},
        {"train": data.train[1:]},
        {"train": data.train[:-1], "select": (data.train[-1], *data.select)},
        {"select": data.select[:-1]},
        {"labels": ("poor", "good")},
    ]
    prints = {dataclasses.replace(data, **change).fingerprint for change in changed}
    assert len(prints | {data.fingerprint}) == len(changed) + 1
    other_report = dataclasses.replace(data, report=data.report[1:])
    assert other_report.fingerprint == data.fingerprint
    assert other_report.report_fingerprint != data.report_fingerprint


def test_attacked_rows_are_a_stratified_sample_with_their_positions(write_csv, reviews):
    select = load_task(Task(source=write_csv(reviews), rows=Rows(select=50, report=20)), seed=0).select
    sample = attack_sample(select, 10, seed=0)
    assert [index for index, _ in sample] == sorted({index for index, _ in sample})
    assert all(select[index] == row for index, row in sample)
    assert Counter(row.label for _, row in sample) == {0: 4, 1: 6}
    assert sample == attack_sample(select, 10, seed=0) != attack_sample(select, 10, seed=1)
    assert [index for index, _ in attack_sample(select, 50, seed=0)] == list(range(50))
    with pytest.raises(DataError, match="51 attacked rows, but there are 50"):
        attack_sample(select, 51, seed=0)


def test_held_out_rows_are_checked_like_the_others(write_csv, reviews):
    source = write_csv(reviews)
    held = write_csv([("a", "good"), ("b", "great")], name="held.csv")
    with pytest.raises(
        DataError, match=r"held\.csv, line 3, column 'label': the label 'great' is not one of 'bad', 'good'"
    ):
        load_task(Task(source=source, held_out=held, rows=SMALL), seed=0)
    held = write_csv([("a", "good"), ("b", "bad")], name="held.csv")
    with pytest.raises(DataError, match=r"held\.csv: task\.rows asks for 20 report \+ 10 select = 30 rows"):
        load_task(Task(source=source, held_out=held, rows=SMALL), seed=0)
    with pytest.raises(DataError, match=r"rows\.csv: task\.rows asks for 2 train = 2 rows.*only 0 can be used"):
        load_task(Task(source=source, held_out=source, rows=SMALL), seed=0)


def test_bundled_tasks_split_without_any_setting():
    data = load_task(Task(), seed=0)
    assert (len(data.train), len(data.select), len(data.report)) == (8530 - 256 - 512, 256, 512)
    assert data.labels == ("negative", "positive")
    assert Counter(row.label for row in data.select) == {0: 128, 1: 128}


def test_duplicate_imdb_reviews_are_dropped():
    data = load_task(Task(source="bundled/imdb"), seed=0)
    # 96 exact duplicates, and 2 more that differ in line breaks and white space only.
    assert data.dropped == Dropped(duplicates=98)
    assert len(data.train) + len(data.select) + len(data.report) == 25000 - 98


def test_reading_local_rows_imports_nothing_heavy():
    code = (
        "import sys; from tune_tickets.config.task import Task; from tune_tickets.data.task import load_task;"
        "import tune_tickets.cli.init; load_task(Task(), 0);"
        "print([name for name in ('torch', 'transformers', 'pandas', 'datasets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not (SHARED / "sst2").is_dir(), reason=f"SST-2 is not in {SHARED}")
def test_sst2_phrases_of_the_held_out_sentences_do_not_reach_the_training_rows():
    task = Task(
        source=str(SHARED / "sst2" / "train.jsonl.gz"),
        held_out=str(SHARED / "sst2" / "validation.jsonl.gz"),
        rows=Rows(select=360, report=512),
    )
    data = load_task(task, seed=0)
    assert not set(keys(data.train)) & set(keys(data.select, data.report))
    assert len(set(keys(data.select, data.report))) == 872
    assert data.labels == ("negative", "positive")


@pytest.mark.skipif(not (SHARED / "mnli").is_dir(), reason=f"MNLI is not in {SHARED}")
def test_mnli_pairs_split_by_three_labels():
    task = Task(source=str(SHARED / "mnli" / "train.jsonl.gz"), text=("premise", "hypothesis"), attacked="hypothesis")
    data = load_task(task, seed=0)
    assert data.labels == ("contradiction", "entailment", "neutral")
    assert all(80 <= count <= 90 for count in Counter(row.label for row in data.select).values())
