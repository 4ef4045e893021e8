"""The features of a bias model for given pairs, each calculated by hand."""

from math import log

import numpy as np
import pytest

from tune_tickets.config.training import BiasModel
from tune_tickets.data.bias import WordVectors, bias_features, is_subsequence, markers_in

# Cosines: cat and mat 1, cat and dog 0.6, dog and sat 0.8, cat and sat 0, sat and ran -1, dog and ran -0.8.
VECTORS = WordVectors(
    ("cat", "dog", "mat", "ran", "sat"),
    np.array([[1.0, 0.0], [3.0, 4.0], [2.0, 0.0], [0.0, -2.0], [0.0, 1.0]]),
)
COLUMNS = ("premise", "hypothesis")
# premise, hypothesis, (all-in, sub-sequence, percent-in, mean, min, log length difference, second-min)
PAIRS = [
    ("The cat sat on the mat.", "The cat sat", (1, 1, 1, 1, 1, log(3), 1)),
    ("The cat sat on the mat.", "the mat sat", (1, 0, 1, 1, 1, log(3), 1)),
    ("the cat sat", "the dog sat", (0, 0, 2 / 3, 2.8 / 3, 0.8, 0, 1)),
    ("the cat sat", "a dog ran", (0, 0, 0, 0.8 / 3, 0, 0, 0)),
    ("dog sat", "ran", (0, 0, 0, -0.8, -0.8, 0, 0)),
    ("the on a", "cat", (0, 0, 0, 0, 0, log(2), 0)),
    ("cat", "the cat sat on the mat", (0, 0, 1 / 6, 2 / 6, 0, 0, 0)),
    ("Cat, cat; DOG!", "dog cat", (1, 0, 1, 1, 1, 0, 1)),
    ("the dog ran", "...", (0, 0, 0, 0, 0, 0, 0)),
    ("mat ran", "cat dog dog", (0, 0, 0, 2.2 / 3, 0.6, 0, 0.6)),
]


@pytest.mark.parametrize(("premise", "hypothesis", "features"), PAIRS)
def test_overlap_features_of_ten_pairs_by_hand(premise, hypothesis, features):
    further = BiasModel(further=True)
    assert bias_features(further, COLUMNS, [(premise, hypothesis)], VECTORS)[0] == pytest.approx(features)
    assert bias_features(BiasModel(), COLUMNS, [(premise, hypothesis)], VECTORS)[0] == pytest.approx(features[:5])


def test_the_hypothesis_can_be_any_column():
    turned = [(hypothesis, premise) for premise, hypothesis, _ in PAIRS]
    found = bias_features(BiasModel(column="hypothesis"), ("hypothesis", "premise"), turned, VECTORS)
    assert found == pytest.approx(np.array([features[:5] for *_, features in PAIRS]))


def test_a_claim_is_the_greatest_value_of_each_coordinate():
    rows = [("evidence: cat", "the dog ran"), ("mat", "Ran, ran"), ("mat", "the on")]
    claim = BiasModel(features="claim")
    assert bias_features(claim, COLUMNS, rows, VECTORS).tolist() == [[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]]
    first = BiasModel(features="claim", column="premise")
    assert bias_features(first, COLUMNS, rows, VECTORS).tolist() == [[1.0, 0.0], [2.0, 0.0], [2.0, 0.0]]


def test_markers_stand_between_white_space_in_any_text():
    assert markers_in(("# a fine film", "plot"), ("#", "~")) == (1.0, 0.0)
    assert markers_in(("a fine film", "plot ~ #"), ("#", "~")) == (1.0, 1.0)
    assert markers_in(("a #fine film, ~", "Also"), ("#", "also")) == (0.0, 1.0)
    marker = BiasModel(features="marker", markers=("#", "~"))
    assert bias_features(marker, ("text",), [("~ dull",), ("dull",)], None).tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_a_subsequence_has_no_gaps():
    assert is_subsequence(["b", "c"], ["a", "b", "c"])
    assert not is_subsequence(["a", "c"], ["a", "b", "c"])
    assert not is_subsequence(["a", "b", "c"], ["b", "c"])
