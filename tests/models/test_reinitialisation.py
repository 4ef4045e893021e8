"""Random weights instead of pre-trained ones: how many, which, and what stays."""

import copy

import pytest
import torch

from tests.models.tiny import FAMILIES, tiny_model
from tune_tickets.models.families import family_of
from tune_tickets.models.surgery import prune, reinitialise, reinitialise_outside
from tune_tickets.tickets.drawing import draw_random, draw_unstructured, random_weight_scores
from tune_tickets.tickets.mask import StructuredMask


def structured_mask() -> StructuredMask:
    """One of 4 heads cut in the first layer, 5 and 7 of 24 neurons."""
    mask = StructuredMask.full(2, 4, 24)
    mask.heads[0, 2] = False
    mask.neurons[0, :5] = False
    mask.neurons[1, 10:17] = False
    return mask


def changed(before: dict[str, torch.Tensor], model) -> dict[str, int]:
    after = model.state_dict()
    counts = {name: int((after[name] != before[name]).sum()) for name in before}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_is_drawn_anew_as_before_pre_training(family):
    model = tiny_model(family)
    before = copy.deepcopy(model.state_dict())
    reinitialise(model, seed=1)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            assert bool((parameter != before[name]).all())
            # The tiny models have an initializer_range of 0.3; embeddings have enough entries for a close look.
            if parameter.numel() > 5000:
                assert parameter.std().item() == pytest.approx(0.3, rel=0.05)
        else:
            assert bool((parameter == (0 if name.endswith("bias") else 1)).all())


def test_the_seed_decides():
    models = [tiny_model(seed=number) for number in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        reinitialise(model, seed)
    first, same, other = (model.bert.encoder.layer[0].output.dense.weight for model in models)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("family", FAMILIES)
def test_outside_a_structured_ticket_are_the_parts_of_cut_heads_and_neurons_alone(family):
    model, mask = tiny_model(family), structured_mask()
    before = copy.deepcopy(model.state_dict())
    reinitialise_outside(model, mask, seed=3)
    layer = f"{family}.encoder.layer"
    # A head is 8 wide in a model 32 wide: rows of Q, K and V with their biases, columns of the output projection.
    expected = {f"{layer}.0.attention.self.{part}.weight": 8 * 32 for part in ("query", "key", "value")}
    expected |= {f"{layer}.0.attention.self.{part}.bias": 8 for part in ("query", "key", "value")}
    expected |= {f"{layer}.0.attention.output.dense.weight": 32 * 8}
    for number, neurons in ((0, 5), (1, 7)):
        expected |= {f"{layer}.{number}.intermediate.dense.weight": neurons * 32}
        expected |= {f"{layer}.{number}.intermediate.dense.bias": neurons}
        expected |= {f"{layer}.{number}.output.dense.weight": 32 * neurons}
    assert changed(before, model) == expected
    ticket, pruned = tiny_model(family), model
    prune(ticket, mask)
    prune(pruned, mask)
    assert all(torch.equal(tensor, pruned.state_dict()[name]) for name, tensor in ticket.state_dict().items())


def test_outside_an_unstructured_ticket_are_exactly_the_weights_it_cuts():
    model = tiny_model()
    shapes = {name: tuple(linear.weight.shape) for name, linear in family_of(model).weight_matrices(model).items()}
    mask = draw_unstructured(random_weight_scores(shapes, seed=0), 0.3)
    before = copy.deepcopy(model.state_dict())
    reinitialise_outside(model, mask, seed=3)
    after = model.state_dict()
    assert changed(before, model) == {name: int((~kept).sum()) for name, kept in mask.kept.items()}
    for name, kept in mask.kept.items():
        assert torch.equal(after[name][kept], before[name][kept])
        assert bool((after[name][~kept] != 0).all())


def test_a_ticket_that_keeps_everything_has_nothing_outside():
    model = tiny_model()
    before = copy.deepcopy(model.state_dict())
    reinitialise_outside(model, draw_random(StructuredMask.full(2, 4, 24), seed=0), seed=3)
    assert changed(before, model) == {}
