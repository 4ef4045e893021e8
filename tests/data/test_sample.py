"""Rows for the attack on a saved model."""

from collections import Counter

import pytest

from tune_tickets.config.task import Rows, Task
from tune_tickets.data.rows import rows_digest
from tune_tickets.data.sample import fresh_sample, labels_for, searched_sample
from tune_tickets.data.task import attack_sample, load_task
from tune_tickets.errors import DataError


@pytest.fixture
def task(write_csv, reviews):
    return Task(source=write_csv(reviews), rows=Rows(train=30, select=40, report=20))


def test_the_sample_of_a_search_is_the_one_its_attack_stages_take(task):
    sample = searched_sample(task, split_seed=3, size=10, seed=3)
    assert list(sample.rows) == attack_sample(load_task(task, 3).select, 10, 3)
    assert (sample.labels, sample.columns, sample.attacked) == (("bad", "good"), ("text",), "text")
    assert sample.digest == rows_digest((row.texts, row.label) for _, row in sample.rows)


def test_another_seed_samples_other_select_rows_and_never_training_rows(task):
    select = load_task(task, 3).select
    other = searched_sample(task, split_seed=3, size=10, seed=4)
    assert other.rows != searched_sample(task, split_seed=3, size=10, seed=3).rows
    assert all(select[index] == row for index, row in other.rows)


def test_rows_of_a_plain_source_are_stratified_and_held_back_by_every_search_of_that_seed(task):
    sample = fresh_sample(task, ("bad", "good"), size=20, seed=5)
    assert Counter(row.label for _, row in sample.rows) == {0: 8, 1: 12}
    for sizes in (Rows(report=20, select=2), Rows(report=30, select=40, train=20)):
        train = set(load_task(task.model_copy(update={"rows": sizes}), 5).train)
        assert not train & {row for _, row in sample.rows}


def test_more_rows_are_a_superset_with_the_same_numbers(task):
    few, many = (fresh_sample(task, ("bad", "good"), size, seed=0).rows for size in (10, 50))
    assert set(few) < set(many)


def test_the_same_rows_for_a_model_with_other_class_numbers(task):
    sample = fresh_sample(task, labels_for(task, ("bad", "good"), "a"), 10, seed=0)
    turned = sample.relabelled(labels_for(task, ("GOOD", "BAD"), "b"))
    assert [row.texts for _, row in turned.rows] == [row.texts for _, row in sample.rows]
    assert [row.label for _, row in turned.rows] == [1 - row.label for _, row in sample.rows]
    assert turned.labels == ("good", "bad")
    assert turned.digest == sample.digest


def test_labels_as_class_numbers(write_csv):
    task = Task(source=write_csv([(f"film {i}", i % 2) for i in range(20)]))
    sample = fresh_sample(task, labels_for(task, ("negative", "positive"), "m"), 6, seed=0)
    assert sample.labels == ("0", "1")
    assert all(row.label == int(row.texts[0].split()[1]) % 2 for _, row in sample.rows)


def test_too_few_rows_are_named(task):
    with pytest.raises(DataError, match=r"101 rows are to be attacked.*only 100"):
        fresh_sample(task, ("bad", "good"), size=101, seed=0)
    with pytest.raises(DataError, match=r"the select rows of .*rows\.csv are only 40"):
        searched_sample(task, 0, size=41, seed=0)
