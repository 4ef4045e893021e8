"""Straight-through masks: how they start, what they cut, and which gradient reaches them."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tune_tickets.tickets.straight_through import StraightThroughMasks
from tune_tickets.tickets.unstructured import UnstructuredMask

PHI, ALPHA = 0.01, 2.0


def layers(seed: int = 0) -> dict[str, nn.Linear]:
    torch.manual_seed(seed)
    return {"a.weight": nn.Linear(10, 7), "b.weight": nn.Linear(6, 5, bias=False)}


def masks_of(linears: dict[str, nn.Linear], sparsity: float, init: str) -> StraightThroughMasks:
    weights = {name: linear.weight for name, linear in linears.items()}
    return StraightThroughMasks(weights, sparsity, init, PHI, ALPHA)


def below(masks: StraightThroughMasks) -> list[int]:
    return [int((matrix.real < matrix.threshold).sum()) for matrix in masks.matrices]


@pytest.mark.parametrize(
    ("sparsity", "counts"),
    # 0.35 of 70 is 24.5 and of 30 10.5: rounded up.
    [(0.0, (0, 0)), (0.2, (14, 6)), (0.35, (25, 11)), (0.5, (35, 15)), (0.7, (49, 21)), (0.9, (63, 27))],
)
def test_a_hard_start_puts_exactly_s_of_each_matrix_below_phi(sparsity, counts):
    linears = layers()
    masks = masks_of(linears, sparsity, "hard")
    for matrix, linear, cut in zip(masks.matrices, linears.values(), counts, strict=True):
        assert float(matrix.threshold) == pytest.approx(PHI)
        magnitudes = linear.weight.detach().abs()
        order = sorted(magnitudes.flatten().tolist())
        assert int((matrix.real < PHI).sum()) == cut
        expected = (magnitudes > (order[cut - 1] if cut else -1.0)).float() * ALPHA * PHI
        assert torch.allclose(matrix.real, expected)


def test_a_hard_start_cuts_exactly_s_even_among_equal_magnitudes():
    linear = nn.Linear(4, 5, bias=False)
    nn.init.constant_(linear.weight, -0.3)
    masks = masks_of({"x": linear}, 0.3, "hard")
    assert below(masks) == [6]


@pytest.mark.parametrize("sparsity", [0.0, 0.2, 0.5, 0.9])
def test_a_soft_start_is_the_magnitude_with_exactly_s_below_the_threshold_of_its_matrix(sparsity):
    linears = layers()
    masks = masks_of(linears, sparsity, "soft")
    for matrix, linear in zip(masks.matrices, linears.values(), strict=True):
        assert torch.equal(matrix.real, linear.weight.abs())
    assert below(masks) == [round(70 * sparsity), round(30 * sparsity)]
    assert masks.matrices[0].threshold != masks.matrices[1].threshold, "thresholds are local"


def test_new_thresholds_give_every_matrix_the_sparsity_asked_for():
    masks = masks_of(layers(), 0.5, "hard")
    with torch.no_grad():
        for matrix in masks.matrices:
            matrix.real.add_(torch.randn_like(matrix.real))
    for sparsity, expected in ((0.2, [14, 6]), (0.9, [63, 27]), (0.0, [0, 0])):
        masks.set_sparsity(sparsity)
        assert below(masks) == expected


def test_the_gradient_of_the_real_valued_mask_is_that_of_the_binary_mask():
    """Return ∂L/∂m by autograd with m as a leaf, in float64."""
    linears = layers()
    for linear in linears.values():
        linear.double().requires_grad_(False)
    masks = masks_of(linears, 0.5, "hard")
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(4, 10, generator=generator, dtype=torch.float64)
    matrix, linear = masks.matrices[0], linears["a.weight"]
    binary = (matrix.real.detach() >= 0.01).double().requires_grad_(True)
    functional.linear(inputs, linear.weight * binary, linear.bias).tanh().square().sum().backward()
    with masks.attached(linears):
        linear(inputs).tanh().square().sum().backward()
    assert matrix.real.grad.dtype == torch.float64
    assert torch.equal(matrix.real.grad, binary.grad)
    assert bool((matrix.real.grad[binary == 0] != 0).any()), "what is cut can come back"


def test_weights_are_masked_while_attached_and_as_they_were_afterwards():
    linears = layers()
    before = {name: linear.weight.detach().clone() for name, linear in linears.items()}
    masks = masks_of(linears, 0.5, "soft")
    with masks.attached(linears):
        for name, linear in linears.items():
            middle = before[name].abs().flatten().sort().values[before[name].numel() // 2]
            assert torch.equal(linear.weight, before[name] * (before[name].abs() >= middle))
        fixed = UnstructuredMask({name: torch.zeros_like(weight, dtype=torch.bool) for name, weight in before.items()})
        with masks.fixed(fixed):
            assert all(not bool(linear.weight.any()) for linear in linears.values())
        assert all(bool(linear.weight.any()) for linear in linears.values())
    assert all(torch.equal(linears[name].weight, weight) for name, weight in before.items())
