import pytest
import torch

from tests.models.test_loading import made_ticket
from tests.models.tiny import (
    FAMILIES,
    HEADS,
    KERNELS,
    NEURONS,
    WIDTH,
    layer_parts,
    tiny_batch,
    tiny_model,
    without_labels,
)
from tune_tickets.models.surgery import prune, regrow
from tune_tickets.tickets.drawing import draw, random_scores


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_at_full_size_the_model_answers_as_the_pruned_one(family, kernel):
    small = tiny_model(family, kernel)
    mask = draw(*random_scores(2, HEADS, NEURONS, seed=1), heads=3 / 8, neurons=0.4)
    assert len(set(mask.heads_kept())) == 2, "layers of different size"
    prune(small, mask)
    dense = regrow(small, mask)
    batch = without_labels(tiny_batch(family))
    with torch.no_grad():
        assert (dense(**batch).logits - small(**batch).logits).abs().max() < 1e-6
    assert not dense.training
    assert {name: tensor.shape for name, tensor in dense.state_dict().items()} == {
        name: tensor.shape for name, tensor in tiny_model(family).state_dict().items()
    }


def test_all_that_was_cut_is_zero_and_nothing_else():
    small = tiny_model()
    mask = draw(*random_scores(2, HEADS, NEURONS, seed=1), heads=1 / 4, neurons=0.5)
    prune(small, mask)
    size = WIDTH // HEADS
    for layer, parts in enumerate(layer_parts(regrow(small, mask))):
        heads = mask.heads[layer].repeat_interleave(size)
        for linear in (parts.query, parts.key, parts.value):
            assert torch.equal(linear.weight.abs().sum(dim=1) > 0, heads)
            assert torch.equal(linear.bias != 0, heads)
        assert torch.equal(parts.attention_output.weight.abs().sum(dim=0) > 0, heads)
        assert torch.equal(parts.intermediate.weight.abs().sum(dim=1) > 0, mask.neurons[layer])
        assert torch.equal(parts.intermediate.bias != 0, mask.neurons[layer])
        assert torch.equal(parts.output.weight.abs().sum(dim=0) > 0, mask.neurons[layer])
        assert bool((parts.output.bias != 0).all())


def test_layers_without_neurons_grow_back_too(tmp_path):
    small, _, _, ticket = made_ticket("bert", tmp_path, neurons=0.9999)
    batch = without_labels(tiny_batch())
    with torch.no_grad():
        assert (regrow(small, ticket.mask)(**batch).logits - small(**batch).logits).abs().max() < 1e-6


def test_growing_does_not_touch_the_callers_random_numbers(tmp_path):
    small, _, _, ticket = made_ticket("bert", tmp_path)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    regrow(small, ticket.mask)
    assert torch.equal(torch.rand(1), expected)
