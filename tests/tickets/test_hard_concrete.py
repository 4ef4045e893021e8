import math

import pytest
import torch

from tune_tickets.errors import ConfigError
from tune_tickets.tickets.hard_concrete import HardConcrete, shares_at_ends

PAPER = HardConcrete()


def logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_an_expected_gate_of_09_starts_at_1609():
    # logit((0.9 + 0.1) / 1.2) = log(5)
    assert PAPER.log_alpha(0.9) == pytest.approx(math.log(5), abs=1e-12)
    assert round(PAPER.log_alpha(0.9), 3) == 1.609
    start = torch.tensor([PAPER.log_alpha(0.9)], dtype=torch.float64)
    assert PAPER.gate(start).item() == pytest.approx(0.9, abs=1e-12)


@pytest.mark.parametrize("mean", ["global", "tensor"])
def test_the_penalty_starts_at_0961(mean):
    start = math.log(5)
    # 5 x 11^(2/3) = 24.73 to 1
    expected = 5 * 11 ** (2 / 3) / (1 + 5 * 11 ** (2 / 3))
    found = PAPER.penalty([torch.full((3, 4), start), torch.full((2,), start)], mean)
    assert found.item() == pytest.approx(expected, abs=1e-6)
    assert round(found.item(), 3) == 0.961


def test_the_global_mean_counts_entries_and_the_other_counts_tensors():
    wide, narrow = torch.full((9,), 50.0), torch.full((1,), -50.0)
    assert PAPER.penalty([wide, narrow]).item() == pytest.approx(0.9, abs=1e-6)
    assert PAPER.penalty([wide, narrow], "tensor").item() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("mean", ["global", "tensor"])
def test_the_gradient_of_the_penalty_is_that_of_finite_differences(mean):
    generator = torch.Generator().manual_seed(1)
    logits = [torch.randn(2, 3, generator=generator, dtype=torch.float64) * 3 for _ in range(2)] + [
        torch.randn(1, 5, generator=generator, dtype=torch.float64)
    ]
    for logit in logits:
        logit.requires_grad_(True)
    PAPER.penalty(logits, mean).backward()
    step = 1e-6
    for logit in logits:
        for index in range(logit.numel()):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    logit.view(-1)[index] += sign * step
                    values.append(PAPER.penalty(logits, mean).item())
                    logit.view(-1)[index] -= sign * step
            assert logit.grad.view(-1)[index].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("log_alpha", [-2.0, 0.0, math.log(5)])
@pytest.mark.parametrize("temperature", [2 / 3, 0.3])
def test_sampled_gates_are_exactly_0_and_1_as_often_as_the_closed_form_says(log_alpha, temperature):
    distribution = HardConcrete(temperature=temperature)
    count = 200_000
    uniform = torch.rand(count, generator=torch.Generator().manual_seed(0))
    gates = distribution.sample(torch.full((count,), log_alpha), distribution.noise(uniform))
    # m = 0 where s <= 1/12, that is logit(u) <= T log(1/11) - log alpha; m = 1 where s >= 11/12.
    zero = logistic(temperature * math.log(1 / 11) - log_alpha)
    one = logistic(log_alpha - temperature * math.log(11))
    for found, expected in zip(shares_at_ends([gates]), (zero, one), strict=True):
        assert abs(found - expected) < 4 * math.sqrt(expected * (1 - expected) / count)
    point = torch.tensor(log_alpha)
    assert 1 - distribution.probability_alive(point).item() == pytest.approx(zero, abs=1e-6)
    assert distribution.probability_one(point).item() == pytest.approx(one, abs=1e-6)
    inside = gates[(gates > 0) & (gates < 1)]
    assert len(inside.unique()) > 1000


def test_a_sample_is_equation_2_and_3_by_hand():
    # u = 0.5 has no noise: s = sigmoid(1.5 x 0.3), m = 1.2 s - 0.1
    gate = PAPER.sample(torch.tensor([0.3, 9.0, -9.0]), PAPER.noise(torch.full((3,), 0.5)))
    assert gate.tolist() == pytest.approx([1.2 * logistic(0.45) - 0.1, 1.0, 0.0], abs=1e-6)


def test_noise_is_clamped_so_that_it_stays_finite():
    noise = PAPER.noise(torch.tensor([0.0, 1e-9, 0.25, 1.0], dtype=torch.float64))
    end = math.log(1e-4 / 0.9999)
    assert noise.tolist() == pytest.approx([end, end, math.log(1 / 3), -end], abs=1e-9)


def test_the_gradient_of_a_sample_is_that_of_the_equations_written_out():
    generator = torch.Generator().manual_seed(3)
    logits = (torch.randn(4, 50, generator=generator, dtype=torch.float64) * 2).requires_grad_(True)
    noise = PAPER.noise(torch.rand(4, 50, generator=generator, dtype=torch.float64))
    weights = torch.randn(4, 50, generator=generator, dtype=torch.float64)
    before = noise.clone()
    gate = PAPER.sample(logits, noise)
    (found,) = torch.autograd.grad((gate * weights).sum(), logits)
    written_out = (torch.sigmoid((noise + logits) * 1.5) * 1.2 - 0.1).clamp(0, 1)
    (expected,) = torch.autograd.grad((written_out * weights).sum(), logits)
    torch.testing.assert_close(gate, written_out, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert 0 < int((found == 0).sum()) < found.numel()
    assert torch.equal(noise, before)


def test_shares_at_the_ends_count_exact_values_only():
    assert shares_at_ends([torch.tensor([0.0, 1e-9, 0.5]), torch.tensor([[1.0, 0.9999999]])]) == (0.2, 0.2)


@pytest.mark.parametrize("wrong", [{"gamma": 0.0}, {"zeta": 1.0}, {"temperature": 0.0}])
def test_impossible_distributions_are_refused(wrong):
    with pytest.raises(ConfigError, match="hard concrete"):
        HardConcrete(**wrong)


@pytest.mark.parametrize("gate", [0.0, 1.0])
def test_a_start_at_an_end_is_refused(gate):
    with pytest.raises(ConfigError, match="expected gate"):
        PAPER.log_alpha(gate)
