import math
import random
from fractions import Fraction

import pytest
import torch

from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.tickets.drawing import cut_count, draw, draw_random, random_scores
from tune_tickets.tickets.mask import StructuredMask


def cut_one_by_one(scores: list[list[float]], count: int, floor: int) -> list[list[bool]]:
    """The rule told as a story: take the smallest, lower (layer, index) first, unless its layer is at the floor."""
    kept = [[True] * len(layer) for layer in scores]
    order = sorted((abs(score), row, column) for row, layer in enumerate(scores) for column, score in enumerate(layer))
    for _, row, column in order:
        if count and sum(kept[row]) > floor:
            kept[row][column] = False
            count -= 1
    assert count == 0
    return kept


def raise_and_recompute(scores: list[list[float]], count: int) -> list[list[bool]]:
    """The rule of the paper's footnote: raise the best head of an empty layer, cut afresh, until none is empty."""
    raised: set[tuple[int, int]] = set()
    while True:
        order = sorted(
            (math.inf if (r, c) in raised else abs(score), r, c)
            for r, row in enumerate(scores)
            for c, score in enumerate(row)
        )
        cut = {(r, c) for _, r, c in order[:count]}
        empty = [r for r, row in enumerate(scores) if all((r, c) in cut for c in range(len(row)))]
        if not empty:
            return [[(r, c) not in cut for c in range(len(row))] for r, row in enumerate(scores)]
        for r in empty:
            raised.add((r, max(range(len(scores[r])), key=lambda c: (abs(scores[r][c]), c))))


@pytest.mark.parametrize("seed", range(40))
def test_global_drawing_agrees_with_brute_force_also_with_ties(seed):
    generator = random.Random(seed)
    layers, heads, neurons = generator.randint(1, 4), generator.randint(2, 5), generator.randint(1, 9)
    # Few distinct values, both signs: many ties.
    values = [-0.9, 0.9, 1.0, -1.0, 1.1]
    head_scores = [[generator.choice(values) for _ in range(heads)] for _ in range(layers)]
    neuron_scores = [[generator.choice(values) for _ in range(neurons)] for _ in range(layers)]
    cut_heads = generator.randint(0, layers * (heads - 1))
    cut_neurons = generator.randint(0, layers * neurons - 1)
    found = draw(
        torch.tensor(head_scores),
        torch.tensor(neuron_scores),
        heads=cut_heads / (layers * heads),
        neurons=cut_neurons / (layers * neurons),
    )
    assert found.heads.tolist() == cut_one_by_one(head_scores, cut_heads, floor=1)
    assert found.heads.tolist() == raise_and_recompute(head_scores, cut_heads)
    assert found.neurons.tolist() == cut_one_by_one(neuron_scores, cut_neurons, floor=0)


@pytest.mark.parametrize("cut", range(7))
def test_at_the_start_all_tie_and_the_lowest_layer_and_index_go_first(cut):
    found = draw(torch.ones(2, 4), torch.ones(2, 4), heads=cut / 8, neurons=cut / 8)
    flat = [True] * 8
    flat[:cut] = [False] * cut
    assert found.neurons.flatten().tolist() == flat
    if cut >= 4:  # the first layer keeps its last head, the next one goes instead
        flat = [False] * 3 + [True] + [False] * (cut - 3) + [True] * (7 - cut)
    assert found.heads.flatten().tolist() == flat


def test_layer_scope_cuts_each_layer_by_itself():
    scores = torch.tensor([[0.1, 0.2, 0.3, 0.4], [9.0, -8.0, 7.0, -6.0]])
    found = draw(scores, scores, heads=0.3, neurons=0.5, heads_scope="layer", neurons_scope="layer")
    # ceil(0.3 x 4) = 2 per layer
    assert found.heads.tolist() == [[False, False, True, True], [True, True, False, False]]
    assert found.neurons.tolist() == [[False, False, True, True], [True, True, False, False]]


def test_scopes_are_chosen_per_kind():
    scores = torch.tensor([[0.1, 0.2], [3.0, 4.0]])
    found = draw(scores, scores, heads=0.5, neurons=0.5, heads_scope="layer", neurons_scope="global")
    assert found.heads.tolist() == [[False, True], [False, True]]
    assert found.neurons.tolist() == [[False, False], [True, True]]


def test_a_layer_may_lose_all_its_neurons_but_not_its_heads():
    scores = torch.tensor([[0.1, 0.2], [3.0, 4.0]])
    found = draw(scores, scores, heads=0.5, neurons=0.5)
    assert found.heads.tolist() == [[False, True], [False, True]]
    assert found.neurons_kept() == (0, 2)


def test_counts_are_the_exact_ceiling_for_every_written_fraction():
    for bottom in range(1, 41):
        for top in range(bottom):
            for total in (1, 7, 24, 36, 72, 144, 1536, 4608, 36864):
                assert cut_count(top / bottom, total) == math.ceil(Fraction(top, bottom) * total)
    for percent in range(100):
        assert cut_count(float(f"0.{percent:02d}"), 36864) == math.ceil(Fraction(percent, 100) * 36864)


@pytest.mark.parametrize(("ratio", "total", "count"), [(0.07, 100, 7), (0.14, 50, 7), (0.28, 25, 7), (0.55, 100, 55)])
def test_products_a_rounding_error_above_a_whole_number_are_that_number(ratio, total, count):
    assert ratio * total > count
    assert cut_count(ratio, total) == count


def test_a_sixth_of_72_heads_is_12():
    assert int((~draw(*random_scores(6, 12, 8, seed=0), heads=1 / 6, neurons=0.0).heads).sum()) == 12


def test_nothing_is_cut_at_ratio_zero():
    assert (
        draw(*random_scores(2, 3, 4, seed=0), heads=0.0, neurons=0.0).digest() == StructuredMask.full(2, 3, 4).digest()
    )


@pytest.mark.parametrize("scope", ["global", "layer"])
def test_cutting_more_heads_than_can_go_tells_the_numbers(scope):
    numbers = {"global": r"cut 11 of 12 heads, but only 9 can go", "layer": r"cut 4 of 4 heads, but only 3 can go"}
    with pytest.raises(ConfigError, match=rf"drawing\.heads = 0\.9 would {numbers[scope]}.*lower drawing\.heads"):
        draw(*random_scores(3, 4, 5, seed=0), heads=0.9, neurons=0.1, heads_scope=scope)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_coefficients_that_diverged_are_not_ranked(bad):
    heads, neurons = random_scores(2, 3, 4, seed=0)
    neurons[1, 2] = bad
    with pytest.raises(TicketsError, match=r"neurons are not finite.*learning rate"):
        draw(heads, neurons, heads=0.1, neurons=0.1)


def test_a_random_mask_keeps_the_counts_of_the_mask_it_matches():
    like = draw(*random_scores(6, 12, 100, seed=0), heads=1 / 3, neurons=0.4)
    masks = [draw_random(like, seed) for seed in range(20)]
    assert all(mask.heads_kept() == like.heads_kept() for mask in masks)
    assert all(mask.neurons_kept() == like.neurons_kept() for mask in masks)
    assert len({mask.digest() for mask in masks}) == 20
    assert draw_random(like, 7).digest() == masks[7].digest()


def test_random_masks_choose_every_head_about_equally_often():
    like = StructuredMask(torch.tensor([[True, True, False, False]]), torch.ones(1, 1, dtype=torch.bool))
    often = sum(draw_random(like, seed).heads.int() for seed in range(400))
    assert ((often > 150) & (often < 250)).all()  # 200 expected, 5 standard deviations


def test_drawing_does_not_touch_the_global_random_numbers():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    random_scores(2, 3, 4, seed=0)
    assert torch.equal(torch.rand(1), expected)
