import itertools
import math

import pytest
import torch

from tune_tickets.errors import ConfigError, StoreError, TicketsError
from tune_tickets.tickets.drawing import (
    draw_unstructured,
    magnitudes,
    random_weight_scores,
    scores_from_bytes,
    scores_to_bytes,
    shuffled,
)
from tune_tickets.tickets.unstructured import UnstructuredMask


def some_scores(seed: int = 0, values: int = 1000) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(-values, values, shape, generator=generator).float()
        for name, shape in {"b": (7, 5), "a": (3, 4), "c": (11,)}.items()
    }


def brute_force(scores: dict[str, torch.Tensor], count: int) -> set[tuple[str, int]]:
    """The (name, index) of the `count` entries that a plain sort puts first."""
    entries = [(value, name, index) for name in scores for index, value in enumerate(scores[name].flatten().tolist())]
    return {(name, index) for _, name, index in sorted(entries)[:count]}


def cut_entries(mask: UnstructuredMask) -> set[tuple[str, int]]:
    return {(name, index) for name in mask.kept for index in (~mask.kept[name].flatten()).nonzero().flatten().tolist()}


@pytest.mark.parametrize("values", [1000, 3, 1])
@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.2, 0.3, 0.5, 0.77, 0.9, 0.99])
def test_exactly_the_lowest_scores_are_cut_and_ties_go_by_name_and_index(values, sparsity):
    scores = some_scores(values=values)
    count = math.ceil(round(sparsity * 58, 6))
    mask = draw_unstructured(scores, sparsity)
    assert mask.weights_cut() == count
    assert cut_entries(mask) == brute_force(scores, count)
    assert {name: kept.shape for name, kept in mask.kept.items()} == {name: s.shape for name, s in scores.items()}


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.9])
def test_within_each_matrix_every_matrix_is_equally_sparse(sparsity):
    scores = some_scores()
    mask = draw_unstructured(scores, sparsity, "matrix")
    for name, score in scores.items():
        count = math.ceil(round(sparsity * score.numel(), 6))
        assert cut_entries(UnstructuredMask({name: mask.kept[name]})) == brute_force({name: score}, count)


def test_one_global_ranking_has_no_floor():
    mask = draw_unstructured({"low": torch.zeros(4, 4), "high": torch.ones(4, 4)}, 0.5)
    assert mask.sparsities() == {"low": 1.0, "high": 0.0}


def test_large_logits_that_sigmoid_cannot_tell_apart_are_still_ranked():
    logits = torch.arange(40.0, 50.0).flip(0)
    assert len(torch.sigmoid(logits).unique()) == 1
    mask = draw_unstructured({"w": logits}, 0.3)
    assert mask.kept["w"].tolist() == [True] * 7 + [False] * 3


def test_tickets_of_one_search_are_nested():
    scores = some_scores()
    cuts = [cut_entries(draw_unstructured(scores, tenths / 10)) for tenths in range(1, 10)]
    assert all(small < large for small, large in itertools.pairwise(cuts))
    assert [len(cut) for cut in cuts] == [6, 12, 18, 24, 29, 35, 41, 47, 53]


def test_what_was_cut_before_is_cut_first():
    scores = {"w": torch.tensor([9.0, 1.0, 2.0, 3.0])}
    before = UnstructuredMask({"w": torch.tensor([False, True, True, True])})
    assert draw_unstructured(scores, 0.5, within=before).kept["w"].tolist() == [False, False, True, True]


@pytest.mark.parametrize("sparsity", [-0.1, 1.0])
def test_impossible_sparsities_are_refused(sparsity):
    with pytest.raises(ConfigError, match="sparsity"):
        draw_unstructured(some_scores(), sparsity)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_of_a_diverged_search_are_refused(value):
    with pytest.raises(TicketsError, match="diverged"):
        draw_unstructured({"w": torch.tensor([1.0, value])}, 0.5)


def test_a_shuffled_mask_cuts_as_many_weights_of_each_matrix_elsewhere():
    mask = draw_unstructured(some_scores(), 0.3)
    mixed = shuffled(mask, 1)
    assert mixed.sparsities() == mask.sparsities()
    assert mixed.digest() != mask.digest()
    assert mixed.digest() == shuffled(mask, 1).digest()
    assert mixed.digest() != shuffled(mask, 2).digest()


def test_random_scores_depend_on_the_seed_and_give_a_ticket_of_the_sparsity_asked_for():
    shapes = {"b": (30, 40), "a": (20, 10)}
    first = random_weight_scores(shapes, 0)
    assert all(
        torch.equal(first[name], score)
        for name, score in random_weight_scores(dict(reversed(shapes.items())), 0).items()
    )
    assert draw_unstructured(first, 0.25).weights_cut() == 350
    assert not torch.equal(first["a"], random_weight_scores(shapes, 1)["a"])


def test_magnitudes_are_absolute_values():
    weights = {"w": torch.nn.Parameter(torch.tensor([-2.0, 1.0, 0.0]))}
    found = magnitudes(weights)["w"]
    assert found.tolist() == [2.0, 1.0, 0.0]
    assert not found.requires_grad


def test_scores_come_back_from_bytes():
    scores = some_scores()
    back = scores_from_bytes(scores_to_bytes(scores))
    assert all(torch.equal(back[name], scores[name]) for name in scores)
    assert draw_unstructured(back, 0.4).digest() == draw_unstructured(scores, 0.4).digest()
    with pytest.raises(StoreError, match="scores"):
        scores_from_bytes(b"nonsense")
