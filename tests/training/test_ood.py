"""Metrics on an OOD twin, with expected values by hand."""

import numpy as np
import pytest
import torch

from tune_tickets.training.ood import choices, counted_as, ood_figures, weighted_f1

T = torch.tensor


def test_answers_are_merged_after_argmax():
    # contradiction, entailment, neutral -> entailment (0), non-entailment (1)
    assert counted_as(T([0, 1, 2, 1]), (1, 0, 1)).tolist() == [1, 0, 1, 0]


def test_an_answer_the_twin_lacks_is_wrong():
    # A three-way FEVER model on a two-way twin: not-enough-info is never right.
    figures = ood_figures(
        "symm", "accuracy", counted_as(T([0, 1, 2, 2]), (0, 1, None)), T([0, 1, 0, 1]), [None] * 4, ""
    )
    assert (figures.value, figures.right) == (50.0, (True, True, False, False))


def test_restricted_models_choose_among_the_labels_present():
    assert choices((None, 0, 1), restrict=True).tolist() == [1, 2]
    assert choices((None, 0, 1), restrict=False) is None
    assert choices((1, 0, 1), restrict=True) is None


def test_accuracy_with_its_interval_and_groups():
    labels, groups = T([0, 0, 1, 1, 1]), ["overlap", "overlap", "overlap", "subsequence", "subsequence"]
    figures = ood_figures("hans", "accuracy", T([0, 1, 1, 1, 0]), labels, groups, "digest")
    assert figures.value == pytest.approx(60.0)
    assert figures.groups == pytest.approx({"overlap": 200 / 3, "subsequence": 50.0})
    # Wilson by hand: (3 + z²/2 ± z sqrt(3·2/5 + z²/4)) / (5 + z²) with z² = 3.8415
    assert figures.interval == pytest.approx((23.07, 88.24), abs=0.01)
    assert (figures.rows, figures.sample) == (5, "digest")
    assert figures.groups["overlap"] == pytest.approx(200 / 3)


def test_weighted_f1_by_hand():
    # True 0: 4 rows, 3 answered 0, 1 answered 1. True 1: 2 rows, 1 right, 1 answered by a label the twin lacks.
    # F1 of 0: 2·3 / (4 + 3) = 6/7; of 1: 2·1 / (2 + 2) = 1/2; weighted: (4·6/7 + 2·1/2) / 6 = 31/42.
    counted, labels = T([0, 0, 0, 1, 1, -1]), T([0, 0, 0, 0, 1, 1])
    figures = ood_figures("paws", "weighted_f1", counted, labels, [None] * 6, "")
    assert figures.value == pytest.approx(100 * 31 / 42)
    assert figures.groups == {}


def test_a_constant_answer_on_an_imbalanced_twin_gains_less_in_f1_than_in_accuracy():
    # PAWS-QQP as in SRNets B.1: 71.8% of 1000 rows are not duplicates. F1 = 2·718 / (718 + 1000), weight 0.718.
    confusion = np.array([[718, 0, 0], [282, 0, 0]])
    assert weighted_f1(confusion) == pytest.approx(100 * 0.718 * 2 * 718 / 1718)


def test_weighted_f1_equals_an_independent_count_on_random_answers():
    drawn = torch.Generator().manual_seed(0)
    labels, counted = (torch.randint(low, 3, (300,), generator=drawn) for low in (0, -1))
    expected = 0.0
    for label in range(3):
        pairs = list(zip(labels.tolist(), counted.tolist(), strict=True))
        hits = sum(true == label == answer for true, answer in pairs)
        precision = hits / sum(answer == label for _, answer in pairs)
        recall = hits / sum(true == label for true, _ in pairs)
        expected += 2 * precision * recall / (precision + recall) * sum(true == label for true, _ in pairs) / 300
    figures = ood_figures("paws", "weighted_f1", counted, labels, [None] * 300, "")
    assert figures.value == pytest.approx(100 * expected)


def test_the_interval_of_weighted_f1_is_the_bootstrap_over_rows():
    drawn = np.random.default_rng(1)
    labels = drawn.integers(0, 2, 120)
    counted = np.where(drawn.random(120) < 0.7, labels, 1 - labels)
    figures = ood_figures("paws", "weighted_f1", torch.tensor(counted), torch.tensor(labels), [None] * 120, "")
    values = []
    for _ in range(2000):  # row by row, unlike the code under test
        rows = drawn.integers(0, 120, 120)
        confusion = np.zeros((2, 3))
        for row in rows:
            confusion[labels[row], counted[row]] += 1
        true, answered = confusion.sum(1), confusion.sum(0)[:2]
        values.append(100 * sum(2 * confusion[k, k] / (true[k] + answered[k]) * true[k] for k in (0, 1)) / 120)
    assert figures.interval == pytest.approx(tuple(np.percentile(values, (2.5, 97.5))), abs=1.0)
    assert figures.interval[0] < figures.value < figures.interval[1]
