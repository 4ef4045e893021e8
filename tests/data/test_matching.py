"""Labels of the data and classes of a model are matched by name, by number or by a given order."""

import pytest

from tune_tickets.config.task import Task
from tune_tickets.data.files import Table
from tune_tickets.data.rows import match_labels
from tune_tickets.errors import DataError


def match(labels, classes, published=None, stated=None):
    texts = [f"text {index}" for index in range(len(labels))]
    class_names = {"label": published} if published else {}
    table = Table("rows.csv", {"text": texts, "label": labels}, class_names=class_names)
    return match_labels(table, Task(source="rows.csv", labels=stated), classes, "some/model")


def test_names_match_whatever_their_case_and_order():
    assert match(["pos", "neg", "pos"], ("NEG", "POS")) == ("neg", "pos")
    assert match(["pos", "neg"], ("Pos", "Neg")) == ("pos", "neg")


def test_a_class_that_the_data_lack_keeps_the_models_name():
    labels = ["entailment", "contradiction", "entailment"]
    assert match(labels, ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")) == ("contradiction", "NEUTRAL", "entailment")


def test_whole_numbers_are_class_numbers_unless_the_model_uses_them_as_names():
    assert match(["0", "1", "1"], ("negative", "positive")) == ("0", "1")
    assert match(["2", "0"], ("LABEL_0", "LABEL_1", "LABEL_2")) == ("0", "1", "2")
    assert match(["1", "0"], ("1", "0")) == ("1", "0")


def test_classes_without_names_follow_a_published_or_stated_order_and_no_other():
    nameless = ("LABEL_0", "LABEL_1")
    assert match([0, 1, 1], nameless, published=("negative", "positive")) == ("negative", "positive")
    assert match(["good", "bad"], nameless, stated=("good", "bad")) == ("good", "bad")
    with pytest.raises(DataError, match="cannot be matched"):
        match(["good", "bad"], nameless)


def test_a_stated_order_serves_where_no_name_matches():
    assert match(["good", "bad"], ("NEGATIVE", "POSITIVE"), stated=("bad", "good")) == ("bad", "good")


@pytest.mark.parametrize(
    ("labels", "classes", "options"),
    [
        (["good", "bad"], ("negative", "positive"), {}),
        ([0, 1], ("FAKE", "REAL"), {"published": ("negative", "positive")}),
        (["good", "bad", "fair"], ("LABEL_0", "LABEL_1"), {"stated": ("bad", "fair", "good")}),
        (["neg", "other"], ("neg", "pos"), {"stated": ("neg", "other")}),
        (["0", "2"], ("negative", "positive"), {}),
    ],
)
def test_labels_that_do_not_fit_are_an_error_that_shows_both_sides(labels, classes, options):
    with pytest.raises(
        DataError, match=rf"rows\.csv has the labels .* but some/model has the classes '{classes[0]}'.*task\.labels="
    ):
        match(labels, classes, **options)
