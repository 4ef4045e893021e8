"""Texts that the caller gives to be attacked."""

import pytest

from tune_tickets.data.sample import given_sample
from tune_tickets.errors import DataError

CLASSES = ("neg", "pos")


def given(texts, labels, columns=None, attacked=None, size=None):
    return given_sample(texts, labels, CLASSES, columns, attacked, size, seed=0)


def test_all_texts_are_taken_with_their_numbers_in_the_classes_of_the_model():
    sample = given([("good",), ("bad",), ("good",)], ["POS", "neg", "pos"])
    assert [(index, row.texts, row.label) for index, row in sample.rows] == [
        (0, ("good",), 1),
        (1, ("bad",), 0),
        (2, ("good",), 1),
    ]
    assert (sample.columns, sample.attacked, sample.labels) == (("text",), "text", CLASSES)


def test_a_sample_of_them_is_stratified_and_has_nothing_twice():
    texts = [(f"text {number % 6}",) for number in range(12)]
    sample = given(texts, ["neg", "pos"] * 6, size=4)
    assert sorted(row.label for _, row in sample.rows) == [0, 0, 1, 1]
    assert len({row.texts for _, row in sample.rows}) == 4
    assert all(texts[index] == row.texts for index, row in sample.rows)
    with pytest.raises(DataError, match="7 rows are to be attacked, but the texts given are only 6"):
        given(texts, ["neg", "pos"] * 6, size=7)


def test_of_a_pair_one_column_has_to_be_named():
    pairs = [("a film", "it was good")]
    assert given(pairs, ["pos"], ("premise", "hypothesis"), "hypothesis").attacked == "hypothesis"
    assert given(pairs, ["pos"], None, "second").columns == ("first", "second")
    with pytest.raises(DataError, match="choose premise or hypothesis, the text"):
        given(pairs, ["pos"], ("premise", "hypothesis"))


def test_rows_that_do_not_fit_are_named():
    with pytest.raises(DataError, match="text 1 has the label 'fine', but the model's labels are neg, pos"):
        given([("a",), ("b",)], ["pos", "fine"])
    with pytest.raises(DataError, match="text 1 has 2 parts, expected 1: text"):
        given([("a",), ("b", "c")], ["pos", "neg"])
