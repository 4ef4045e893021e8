import pytest
import torch
from torch import nn

from tune_tickets.tickets.gates import Gates, penalty


def test_coefficients_scale_head_blocks_and_single_neurons():
    gates = Gates(layers=1, heads=2, neurons=4)
    gates.heads.data = torch.tensor([[2.0, -1.0]])
    gates.neurons.data = torch.tensor([[0.0, 1.0, 0.5, 3.0]])
    attention, output = nn.Identity(), nn.Identity()
    states = torch.arange(1.0, 9.0).view(1, 2, 4)
    with gates.attach([attention], [output]):
        assert attention(states).tolist() == [[[2, 4, -3, -4], [10, 12, -7, -8]]]
        assert output(states).tolist() == [[[0, 2, 1.5, 12], [0, 6, 3.5, 24]]]
    assert torch.equal(attention(states), states)
    assert torch.equal(output(states), states)


def test_each_layer_has_its_own_coefficients():
    gates = Gates(layers=2, heads=1, neurons=2)
    gates.heads.data = torch.tensor([[2.0], [3.0]])
    modules = [nn.Identity(), nn.Identity()]
    attachment = gates.attach(modules, [nn.Identity(), nn.Identity()])
    assert [module(torch.ones(1)).item() for module in modules] == [2.0, 3.0]
    attachment.remove()
    assert [module(torch.ones(1)).item() for module in modules] == [1.0, 1.0]


def test_gradients_reach_the_coefficients():
    gates = Gates(layers=1, heads=2, neurons=2)
    linear = nn.Linear(4, 3, bias=False).double()
    states = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with gates.attach([linear], [nn.Identity()]):
        linear(states).sum().backward()
    contribution = (states * linear.weight.detach().sum(dim=0)).sum(dim=0)
    expected = contribution.view(2, 2).sum(dim=1).float()
    torch.testing.assert_close(gates.heads.grad, expected.unsqueeze(0), rtol=1e-5, atol=1e-5)


def test_coefficients_start_at_one_in_float32_and_change_nothing():
    torch.set_default_dtype(torch.float64)
    try:
        gates = Gates(2, 3, 4)
    finally:
        torch.set_default_dtype(torch.float32)
    assert gates.heads.dtype == gates.neurons.dtype == torch.float32
    assert (gates.heads == 1).all()
    assert (gates.neurons == 1).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_models_precision_is_kept(dtype):
    gates, module = Gates(1, 2, 4), nn.Identity()
    with gates.attach([nn.Identity()], [module]):
        assert module(torch.ones(2, 4, dtype=dtype)).dtype == dtype


def test_the_penalty_is_a_weighted_sum_of_magnitudes():
    gates = Gates(1, 2, 3)
    gates.heads.data = torch.tensor([[0.5, -2.0]])
    gates.neurons.data = torch.tensor([[1.0, -1.0, 3.0]])
    value = penalty(gates, lambda_heads=0.1, lambda_neurons=0.01)
    assert value.item() == pytest.approx(0.1 * 2.5 + 0.01 * 5.0)
    value.backward()
    torch.testing.assert_close(gates.heads.grad, torch.tensor([[0.1, -0.1]]))
    torch.testing.assert_close(gates.neurons.grad, torch.tensor([[0.01, -0.01, 0.01]]))
