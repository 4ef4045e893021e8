"""What `attack` refuses before any model is loaded, and how it matches the labels of two models."""

import pytest

from tune_tickets.api.attack import _reordered, attack
from tune_tickets.errors import DataError
from tune_tickets.models.classifier import Classifier


def model(name, labels):
    return Classifier(name, None, None, labels, ("text",), 8)


def test_texts_and_labels_come_together_and_in_the_place_of_data():
    for arguments in (
        {"labels": ["pos"]},
        {"texts": ["a film"]},
        {"texts": ["a film"], "labels": ["pos", "neg"]},
        {"texts": ["a film"], "labels": ["pos"], "data": "reviews.csv"},
    ):
        with pytest.raises(DataError, match="texts"):
            attack("some/model", **arguments)


def test_labels_are_matched_by_name_whatever_their_order():
    assert _reordered(model("a", ("neg", "pos")), model("b", ("POS", "NEG"))) == ("pos", "neg")
    with pytest.raises(DataError, match="they do not match"):
        _reordered(model("a", ("neg", "pos")), model("b", ("bad", "good")))
