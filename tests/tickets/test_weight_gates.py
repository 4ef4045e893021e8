import pytest
import torch
from torch import nn

from tune_tickets.tickets.hard_concrete import HardConcrete
from tune_tickets.tickets.weight_gates import WeightGates


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).requires_grad_(False)


def linears_of(model: nn.Sequential) -> dict[str, nn.Linear]:
    return {"0.weight": model[0], "2.weight": model[2]}


def gates_for(model: nn.Sequential, **settings) -> WeightGates:
    shapes = {name: tuple(linear.weight.shape) for name, linear in linears_of(model).items()}
    return WeightGates(shapes, HardConcrete(), **settings)


def test_all_gates_start_at_the_expected_value_and_the_penalty_at_0961():
    gates = gates_for(network())
    assert all((score - 1.6094379).abs().max() < 1e-6 for score in gates.scores().values())
    assert round(gates.penalty().item(), 3) == 0.961
    assert gates.shares_at_ends() == (0.0, 0.0)


def test_in_eval_mode_weights_are_scaled_by_the_gate_without_noise():
    model, inputs = network(), torch.randn(5, 6)
    gates = gates_for(model)
    weights = [model[0].weight.clone(), model[2].weight.clone()]
    expected = torch.tanh(inputs @ (0.9 * weights[0]).T + model[0].bias) @ (0.9 * weights[1]).T + model[2].bias
    with gates.attached(linears_of(model)):
        model.eval()
        torch.testing.assert_close(model(inputs), expected)


def test_afterwards_the_model_is_as_it_was():
    model = network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="on the way"), gates_for(model).attached(linears_of(model)):
        raise RuntimeError("on the way")
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert type(model[0]) is nn.Linear


def test_only_logits_get_gradients():
    model = network()
    gates = gates_for(model)
    with gates.attached(linears_of(model)):
        model.train()
        model(torch.randn(5, 6)).square().sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad.abs().sum() > 0 for parameter in gates.parameters())


@pytest.mark.parametrize("keep", [True, False])
def test_noise_is_new_at_every_pass_or_kept_until_renewed(keep):
    model, inputs = network(), torch.randn(5, 6)
    gates = gates_for(model, keep_noise=keep)
    with gates.attached(linears_of(model)):
        model.train()
        gates.renew(1)
        first = []
        for _ in range(3):
            output = model(inputs)
            output.sum().backward()  # several backward passes with the same noise
            first.append(output.detach())
        gates.renew(2)
        other = model(inputs).detach()
        gates.renew(1)
        again = [model(inputs).detach() for _ in range(3)]
    assert torch.equal(first[0], first[1]) == keep
    assert torch.equal(first[0], first[2]) == keep
    assert not torch.equal(first[0], other)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_noise_neither_reads_nor_moves_the_global_random_numbers():
    model, inputs = network(), torch.randn(5, 6)
    gates = gates_for(model)
    outputs = []
    with gates.attached(linears_of(model)):
        model.train()
        for seed in (1, 2):
            torch.manual_seed(seed)
            gates.renew(7)
            outputs.append(model(inputs))
            drawn = torch.rand(1)
            torch.manual_seed(seed)
            assert torch.equal(drawn, torch.rand(1))
    assert torch.equal(*outputs)


def test_a_grouped_gate_covers_neighbouring_columns():
    model = network()
    gates = WeightGates({"0.weight": (1, 3)}, HardConcrete())
    weight = model[0].weight.clone()
    with torch.no_grad():
        gates.matrices[0].log_alpha.copy_(torch.tensor([[20.0, 0.0, -20.0]]))
    with gates.attached(linears_of(model)):
        model.eval()
        expected = weight * torch.tensor([1.0, 1.0, 0.5, 0.5, 0.0, 0.0])
        torch.testing.assert_close(model[0].weight, expected)
    assert gates.shares_at_ends() == (1 / 3, 1 / 3)


def test_scores_are_a_copy():
    gates = gates_for(network())
    gates.scores()["0.weight"].zero_()
    assert gates.scores()["0.weight"].min() > 1.6
