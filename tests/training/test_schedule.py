import pytest
import torch

from tests.models.tiny import gates_for, tiny_model
from tune_tickets.training.schedule import (
    build_optimizer,
    linear_factor,
    mini_epoch_ends,
    mini_epoch_steps,
    set_learning_rates,
    total_steps,
)


def test_the_factor_rises_and_falls_by_hand():
    factors = [linear_factor(step, total=10, warmup=0.2) for step in range(10)]
    assert factors == pytest.approx([1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_without_warm_up_the_first_step_has_the_full_rate():
    assert [linear_factor(step, 4, 0.0) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]


@pytest.mark.parametrize("total", [1, 2, 9, 100])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5, 0.99])
def test_no_step_is_wasted_and_none_exceeds_the_full_rate(total, warmup):
    assert all(0 < linear_factor(step, total, warmup) <= 1 for step in range(total))


@pytest.mark.parametrize(
    ("steps", "epochs", "total"), [(10, 1.0, 10), (10, 0.25, 3), (10, 1.5, 15), (3, 0.01, 1), (30, 0.1, 3)]
)
def test_fractions_of_an_epoch_round_up(steps, epochs, total):
    assert total_steps(steps, epochs) == total


def test_mini_epochs_by_hand():
    assert mini_epoch_ends(100, 1.0, 0.05) == tuple(range(5, 101, 5))
    assert mini_epoch_ends(60, 1.0, 0.05) == tuple(range(3, 61, 3))
    assert mini_epoch_ends(10, 1.0, 0.25) == (3, 5, 8, 10)
    assert mini_epoch_ends(10, 0.5, 0.2) == (2, 4, 5)
    assert mini_epoch_ends(10, 2.0, 1.0) == (10, 20)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 19, 20, 21, 243])
@pytest.mark.parametrize("epochs", [0.05, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.3, 1.0])
def test_no_mini_epoch_is_empty_and_the_last_ends_the_search(steps, epochs, share):
    ends = mini_epoch_ends(steps, epochs, share)
    assert ends[-1] == total_steps(steps, epochs)
    assert all(before < after for before, after in zip((0, *ends), ends, strict=False))


def test_the_steps_of_a_mini_epoch_by_hand():
    assert [mini_epoch_steps(steps) for steps in (1, 19, 100, 119, 2105)] == [4, 4, 5, 5, 105]
    assert [mini_epoch_steps(steps, share=0.05, least=1) for steps in (1, 19, 60, 79)] == [1, 1, 3, 3]
    assert mini_epoch_steps(60, share=0.25, least=1) == 15, "not 14 by a rounding error"


def test_biases_layer_norms_and_coefficients_do_not_decay():
    model = tiny_model()
    gates, _ = gates_for(model)
    optimizer = build_optimizer(model, 1e-3, 0.01, gates, coefficient_learning_rate=0.5)
    names = {
        id(parameter): name for name, parameter in [*model.named_parameters(), *gates.named_parameters(prefix="gates")]
    }
    decayed, plain, coefficients = (
        {names[id(parameter)] for parameter in group["params"]} for group in optimizer.param_groups
    )
    assert decayed == {name for name in names.values() if name.endswith("weight") and "LayerNorm" not in name}
    assert plain == {name for name in names.values() if name.endswith("bias") or "LayerNorm" in name}
    assert coefficients == {"gates.heads", "gates.neurons"}
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0, 0.0]
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 1e-3, 0.5]


def test_coefficients_share_the_learning_rate_unless_told_otherwise():
    model = tiny_model()
    gates, _ = gates_for(model)
    assert build_optimizer(model, 1e-3, 0.01, gates).param_groups[-1]["lr"] == 1e-3


def test_frozen_parameters_are_left_out():
    model = tiny_model()
    model.base_model.requires_grad_(False)
    trained = [p for group in build_optimizer(model, 1e-3, 0.01).param_groups for p in group["params"]]
    assert {id(p) for p in trained} == {id(p) for p in model.classifier.parameters()}


def test_rates_are_set_from_the_full_rate_each_time():
    optimizer = build_optimizer(torch.nn.Linear(2, 2), 0.4, 0.0)
    for factor in (0.5, 0.25):
        set_learning_rates(optimizer, factor)
        assert {group["lr"] for group in optimizer.param_groups} == {0.4 * factor}
