import math

import pytest
import torch
from safetensors.torch import save
from torch import nn

from tune_tickets.errors import StoreError, TicketsError
from tune_tickets.tickets.unstructured import UnstructuredMask


def example() -> UnstructuredMask:
    return UnstructuredMask(
        {
            "b.weight": torch.tensor([[True, False, True], [False, False, True]]),
            "a.weight": torch.tensor([True] * 8 + [False, True]),
        }
    )


def test_sparsity_in_all_and_by_matrix():
    mask = example()
    assert mask.sparsity == pytest.approx(4 / 16)
    assert mask.sparsities() == pytest.approx({"b.weight": 0.5, "a.weight": 0.1})
    assert mask.weights_cut() == 4
    assert UnstructuredMask.full({"w": (3, 5)}).sparsity == 0


def test_bytes_give_the_mask_back_at_an_eighth_of_the_size():
    mask = example()
    back = UnstructuredMask.from_bytes(mask.to_bytes())
    assert back.kept.keys() == mask.kept.keys()
    assert all(torch.equal(back.kept[name], mask.kept[name]) for name in mask.kept)
    assert back.digest() == mask.digest()
    large = UnstructuredMask({"w": torch.rand(100, 81, generator=torch.Generator().manual_seed(0)) < 0.3})
    assert len(large.to_bytes()) < math.ceil(8100 / 8) + 300
    assert torch.equal(UnstructuredMask.from_bytes(large.to_bytes()).kept["w"], large.kept["w"])


def test_the_digest_depends_on_content_and_not_on_order():
    mask = example()
    turned = UnstructuredMask(dict(reversed(mask.kept.items())))
    assert turned.digest() == mask.digest()
    flat = UnstructuredMask({**mask.kept, "b.weight": mask.kept["b.weight"].flatten()})
    flipped = UnstructuredMask({**mask.kept, "b.weight": ~mask.kept["b.weight"]})
    renamed = UnstructuredMask({name.upper(): kept for name, kept in mask.kept.items()})
    assert len({mask.digest(), flat.digest(), flipped.digest(), renamed.digest()}) == 4


@pytest.mark.parametrize("content", [b"nonsense", save({"w/bits": torch.zeros(1, dtype=torch.uint8)}), save({})])
def test_something_else_is_not_taken_for_a_mask(content):
    with pytest.raises(StoreError, match="mask"):
        UnstructuredMask.from_bytes(content)


def test_laid_on_weights_it_folds_them_for_a_while():
    mask = example()
    weights = {name: nn.Parameter(torch.randn(kept.shape)) for name, kept in mask.kept.items()}
    before = {name: weight.detach().clone() for name, weight in weights.items()}

    def look() -> None:
        with mask.laid_on(weights):
            for name, kept in mask.kept.items():
                assert torch.equal(weights[name], before[name].masked_fill(~kept, 0.0))
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        look()
    assert all(torch.equal(weights[name], before[name]) for name in before)
    with pytest.raises(TicketsError, match="another backbone"), mask.laid_on({"a.weight": weights["a.weight"]}):
        pass
    assert torch.equal(weights["a.weight"], before["a.weight"])


def test_folding_gives_zeros_and_leaves_the_rest_bit_for_bit():
    mask = example()
    weights = {name: torch.randn(kept.shape) for name, kept in mask.kept.items()}
    weights["b.weight"][0, 1] = -torch.inf
    before = {name: weight.clone() for name, weight in weights.items()}
    mask.fold(weights)
    for name, kept in mask.kept.items():
        assert torch.equal(weights[name][kept], before[name][kept])
        assert (weights[name][~kept] == 0).all()


@pytest.mark.parametrize("found", [{}, {"b.weight": torch.zeros(3, 2), "a.weight": torch.zeros(10)}])
def test_a_mask_of_another_model_is_refused(found):
    with pytest.raises(TicketsError, match="another backbone"):
        example().fold(found)


@pytest.mark.parametrize("fused", [True, False])
def test_cut_weights_stay_exactly_zero_and_the_others_train_as_if_they_were_absent(fused):
    """Against a plain loop that multiplies by the mask in the forward pass; decay, momentum and clipping included."""
    torch.manual_seed(0)
    held, plain = nn.Linear(6, 5), nn.Linear(6, 5)
    plain.load_state_dict(held.state_dict())
    mask = UnstructuredMask({"weight": torch.rand(5, 6) < 0.5})
    kept = mask.kept["weight"]
    inputs, targets = torch.randn(20, 6), torch.randn(20, 5)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.3, fused=fused) for m in (held, plain)]
    with mask.hold({"weight": held.weight}):
        for _ in range(10):
            for part in (slice(0, 10), slice(10, 20)):  # gradients accumulate over passes
                ((held(inputs[part]) - targets[part]) ** 2).sum().backward()
                (((inputs[part] @ (plain.weight * kept).T + plain.bias) - targets[part]) ** 2).sum().backward()
            for model, optimizer in zip((held, plain), optimizers, strict=True):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
            assert (held.weight[~kept] == 0).all()
    torch.testing.assert_close(held.weight[kept], plain.weight[kept])
    torch.testing.assert_close(held.bias, plain.bias)
    state = optimizers[0].state[held.weight]
    assert (state["exp_avg"][~kept] == 0).all()
    assert (state["exp_avg_sq"][~kept] == 0).all()


def test_after_release_all_weights_get_gradients_again():
    model = nn.Linear(3, 2)
    with UnstructuredMask({"weight": torch.zeros(2, 3, dtype=torch.bool)}).hold({"weight": model.weight}):
        model(torch.ones(1, 3)).sum().backward()
        assert (model.weight.grad == 0).all()
    model(torch.ones(1, 3)).sum().backward()
    assert (model.weight.grad == 1).all()


@pytest.mark.parametrize("kept", [{}, {"w": torch.ones(2, 2)}])
def test_a_mask_holds_bools(kept):
    with pytest.raises(StoreError):
        UnstructuredMask(kept)
