import copy

import pytest
import torch

from tests.models.tiny import FAMILIES, gates_for, tiny_batch, tiny_model
from tune_tickets.config.training import Adversary
from tune_tickets.models.families import family_of
from tune_tickets.training import adversary as module
from tune_tickets.training.adversary import adversary_of, ascend, initial_delta, perturbed
from tune_tickets.training.losses import cross_entropy

SETTINGS = [
    Adversary(kind="freelb", steps=3, step_size=0.3, initial_magnitude=0.2),
    Adversary(kind="freelb", steps=4, step_size=0.3, initial_magnitude=0.2, max_norm=0.45),
    Adversary(kind="freelb", steps=3, step_size=0.05, initial_magnitude=0.02, norm="linf"),
    Adversary(kind="freelb", steps=3, step_size=0.05, initial_magnitude=0.02, norm="linf", max_norm=0.06),
    Adversary(kind="freelb", steps=1, step_size=0.3, initial_magnitude=0.0),
    Adversary(kind="freelb++", steps=6, step_size=0.3, initial_magnitude=0.2),
]


def fresh_generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def loss_with_inputs(model, family, batch, delta):
    """The loss computed another way: perturbed embeddings handed in as inputs, positions given by hand."""
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    tokens = batch["input_ids"].shape[1]
    if family == "bert":
        positions = [list(range(tokens)) for _ in lengths]
    else:  # RoBERTa: real tokens count from 2, padding is 1
        positions = [[2 + i if i < length else 1 for i in range(tokens)] for length in lengths]
    logits = model(
        inputs_embeds=family_of(model).word_embeddings(model)(batch["input_ids"]) + delta,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch.get("token_type_ids"),
        position_ids=torch.tensor(positions),
    ).logits
    return torch.nn.functional.cross_entropy(logits, batch["labels"])


def expected_deltas(model, family, batch, setting, count):
    """delta at each of `count` points of the ascent, row by row in plain loops."""
    width = family_of(model).word_embeddings(model).embedding_dim
    rows, tokens = batch["input_ids"].shape
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    noise = 2 * torch.rand(rows, tokens, width, generator=fresh_generator(), dtype=torch.float64) - 1
    delta = torch.zeros(rows, tokens, width, dtype=torch.float64)
    for row, length in enumerate(lengths):
        scale = setting.initial_magnitude / ((length * width) ** 0.5 if setting.norm == "l2" else 1)
        delta[row, :length] = noise[row, :length] * scale
    deltas = [delta]
    while len(deltas) < count:
        leaf = deltas[-1].clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(loss_with_inputs(model, family, batch, leaf), leaf)
        following = torch.zeros_like(delta)
        for row, length in enumerate(lengths):
            slope, point = gradient[row, :length], deltas[-1][row, :length]
            if setting.norm == "l2":
                point = point + setting.step_size * slope / slope.square().sum().sqrt()
                size = point.square().sum().sqrt().item()
                if setting.max_norm and size > setting.max_norm:
                    point = point * setting.max_norm / size
            else:
                point = point + setting.step_size * slope / slope.abs().max()
                if setting.max_norm:
                    point = point.clamp(-setting.max_norm, setting.max_norm)
            following[row, :length] = point
        deltas.append(following)
    return deltas


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same_gradients(found, expected):
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_freelb_gradients_are_the_mean_over_k_separate_passes(family, setting):
    model, batch = tiny_model(family).double(), tiny_batch(family)
    losses, sums = [], {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for delta in expected_deltas(model, family, batch, setting, setting.steps):
        twin = copy.deepcopy(model)
        loss = loss_with_inputs(twin, family, batch, delta)
        loss.backward()
        losses.append(loss.item())
        for name, gradient in gradients(twin).items():
            sums[name] += gradient / setting.steps
    found = adversary_of(setting).backward(model, batch, cross_entropy, fresh_generator())
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-12)
    assert not found.requires_grad
    assert_same_gradients(gradients(model), sums)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_pgd_gradients_are_those_at_the_end_of_the_ascent(family, setting):
    setting = setting.model_copy(update={"kind": "pgd"})
    model, batch = tiny_model(family).double(), tiny_batch(family)
    twin = copy.deepcopy(model)
    loss = loss_with_inputs(twin, family, batch, expected_deltas(model, family, batch, setting, setting.steps + 1)[-1])
    loss.backward()
    found = adversary_of(setting).backward(model, batch, cross_entropy, fresh_generator())
    assert found.item() == pytest.approx(loss.item(), rel=1e-12)
    assert_same_gradients(gradients(model), gradients(twin))


@pytest.mark.parametrize("family", FAMILIES)
def test_without_an_adversary_gradients_are_the_plain_ones(family):
    model, batch = tiny_model(family).double(), tiny_batch(family)
    twin = copy.deepcopy(model)
    loss_with_inputs(twin, family, batch, 0.0).backward()
    adversary_of(Adversary(kind="none")).backward(model, batch, cross_entropy, fresh_generator())
    assert_same_gradients(gradients(model), gradients(twin))


@pytest.mark.parametrize("kind", ["freelb", "pgd"])
def test_gradients_reach_the_gates_too(kind):
    model, batch = tiny_model().double(), tiny_batch()
    gates, attachment = gates_for(model)
    with attachment:
        adversary_of(Adversary(kind=kind, steps=2)).backward(model, batch, cross_entropy, fresh_generator())
    assert (gates.heads.grad.abs() > 0).all()
    assert (gates.neurons.grad.abs() > 0).all()


def test_ascent_raises_the_loss():
    model, batch = tiny_model().double(), tiny_batch()
    losses = [
        adversary_of(Adversary(kind=kind, steps=steps, step_size=0.1))
        .backward(model, batch, cross_entropy, fresh_generator())
        .item()
        for kind, steps in (("none", 1), ("pgd", 1), ("pgd", 3), ("pgd", 6))
    ]
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 0.05


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("family", FAMILIES)
def test_delta_is_zero_on_padding_at_every_step(family, norm, monkeypatch):
    seen = []
    original = module.perturbed
    monkeypatch.setattr(module, "perturbed", lambda e, delta: seen.append(delta.detach().clone()) or original(e, delta))
    model, batch = tiny_model(family), tiny_batch(family)
    for kind in ("freelb", "pgd"):
        adversary_of(Adversary(kind=kind, steps=3, norm=norm)).backward(model, batch, cross_entropy, fresh_generator())
    padding = batch["attention_mask"] == 0
    assert padding.any()
    assert len(seen) == 3 + 4
    assert all((delta[padding] == 0).all() and (delta[~padding] != 0).all() for delta in seen)


def test_padding_stays_zero_even_where_the_model_looks_at_it():
    batch = tiny_batch()
    delta = ascend(torch.zeros(6, 9, 32), torch.ones(6, 9, 32), batch, Adversary())
    assert (delta[batch["attention_mask"] == 0] == 0).all()
    norms = delta.flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.full((6,), 0.02))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_vanishing_gradient_moves_nothing(norm):
    delta = ascend(
        torch.ones(2, 3, 4), torch.zeros(2, 3, 4), {"attention_mask": torch.ones(2, 3)}, Adversary(norm=norm)
    )
    assert torch.equal(delta, torch.ones(2, 3, 4))


def test_the_start_has_the_magnitude_asked_for():
    embeddings = torch.nn.Embedding(10, 64)
    batch = {"attention_mask": torch.ones(50, 40)}
    delta = initial_delta(embeddings, batch, Adversary(initial_magnitude=0.3), fresh_generator())
    # U(-1, 1) has variance 1/3, so rows of mag / sqrt(n) x U have a norm of about mag / sqrt(3).
    assert delta.flatten(1).norm(dim=1).mean().item() == pytest.approx(0.3 / 3**0.5, rel=0.01)
    cube = initial_delta(embeddings, batch, Adversary(initial_magnitude=0.3, norm="linf"), fresh_generator())
    assert 0.299 < cube.abs().max() <= 0.3
    assert cube.mean().abs() < 0.001


def test_the_start_comes_from_the_generator_alone():
    embeddings, batch = torch.nn.Embedding(10, 8), tiny_batch()
    torch.manual_seed(1)
    first = initial_delta(embeddings, batch, Adversary(), fresh_generator())
    torch.manual_seed(2)
    assert torch.equal(initial_delta(embeddings, batch, Adversary(), fresh_generator()), first)


@pytest.mark.parametrize("kind", ["freelb", "pgd"])
@pytest.mark.parametrize("fixed", [True, False])
def test_dropout_can_be_held_over_the_passes(kind, fixed):
    model, batch = tiny_model(dropout=0.5).train(), tiny_batch()
    draws = []
    model.dropout.register_forward_hook(lambda m, inputs, output: draws.append(output.detach() == 0))
    setting = Adversary(kind=kind, steps=3, fixed_dropout=fixed)
    adversary_of(setting).backward(model, batch, cross_entropy, fresh_generator())
    adversary_of(setting).backward(model, batch, cross_entropy, fresh_generator())
    passes = len(draws) // 2
    assert passes == (3 if kind == "freelb" else 4)
    assert all(torch.equal(mask, draws[0]) == fixed for mask in draws[1:passes])
    assert not torch.equal(draws[0], draws[passes])  # the next batch has new dropout in any case


def test_the_hook_is_gone_after_an_error():
    embeddings = torch.nn.Embedding(10, 4)
    ids = torch.tensor([[1, 2]])
    with perturbed(embeddings, torch.ones(1, 2, 4)):
        assert torch.equal(embeddings(ids), embeddings.weight[ids] + 1)
    with pytest.raises(IndexError), perturbed(embeddings, torch.ones(1, 2, 4)):
        embeddings(ids + 10)
    assert torch.equal(embeddings(ids), embeddings.weight[ids])
