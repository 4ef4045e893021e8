import copy
from functools import partial

import pytest
import torch

from tests.models.tiny import FAMILIES, gates_for, tiny_batch, tiny_config, tiny_model
from tests.training.checkpoints import to_bytes
from tune_tickets.config.training import Adversary
from tune_tickets.errors import StoreError
from tune_tickets.models.surgery import prune
from tune_tickets.tickets.drawing import draw, random_scores
from tune_tickets.tickets.gates import penalty
from tune_tickets.training.adversary import backward
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.probe import accuracy_under_pgd
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.state import TrainState

FREELB = Adversary(kind="freelb", steps=3, step_size=0.1)


def rows(family: str) -> EncodedRows:
    batch = tiny_batch(family, rows=20)
    return EncodedRows(
        batch["input_ids"].int(), batch.get("token_type_ids"), batch["attention_mask"].sum(dim=1), batch["labels"]
    )


def run(family="bert", seed=5, adversary=FREELB, total=7, device="cpu", dropout=0.2) -> tuple[TrainState, Recipe]:
    """A search as a method sets it up: gates attached, penalty, adversary, dropout."""
    # SDPA's mask is prepared by looking at its values, which meta tensors do not have.
    model = tiny_model(family, "eager" if device == "meta" else "sdpa", dropout).to(device)
    gates, _ = gates_for(model)
    optimizer = build_optimizer(model, 1e-2, 0.01, gates, coefficient_learning_rate=0.05)
    recipe = Recipe(
        batches=Batches(rows(family), 8, seed, device),
        loss=cross_entropy,
        adversary=adversary,
        total_steps=total,
        warmup=0.1,
        clip=1.0,
        seed=seed,
        penalty=partial(penalty, gates, 0.01, 0.001),
    )
    return TrainState(model, optimizer, gates), recipe


def everything(state: TrainState) -> dict[str, torch.Tensor]:
    tensors = {**state.model.state_dict(), **state.gates.state_dict(prefix="gates.")}
    for index, entry in state.optimizer.state_dict()["state"].items():
        tensors |= {f"{index}.{name}": value for name, value in entry.items()}
    return tensors


def assert_same_bits(first: TrainState, second: TrainState) -> None:
    expected, found = everything(first), everything(second)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stop", [1, 3, 6])
def test_interrupted_and_resumed_it_ends_with_the_same_bits(family, stop):
    straight, recipe = run(family)
    torch.manual_seed(1)
    losses = dict(train(straight, recipe))
    assert list(losses) == [1, 2, 3, 4, 5, 6, 7]

    torch.manual_seed(2)
    broken, recipe = run(family)
    for step, _ in train(broken, recipe):
        torch.rand(step)  # whatever happens between steps must not matter
        if step == stop:
            break
    checkpoint = to_bytes(broken.parts())

    torch.manual_seed(3)
    resumed, recipe = run(family)
    resumed.restore(checkpoint)
    assert resumed.step == stop
    rest = dict(train(resumed, recipe))
    assert all(torch.equal(losses[step], loss) for step, loss in rest.items())
    assert list(rest) == list(range(stop + 1, 8))
    assert_same_bits(straight, resumed)


@pytest.mark.parametrize(("kind", "passes"), [("none", 1), ("freelb", 3), ("pgd", 4)])
def test_rows_are_counted_once_per_pass(kind, passes):
    # 20 rows in batches of 8: an epoch is three steps, of which one has 4 rows. Six steps are two epochs.
    state, recipe = run(adversary=Adversary(kind=kind, steps=3), total=6)
    list(train(state, recipe))
    assert state.row_passes == 2 * 20 * passes
    again, _ = run()
    again.restore(to_bytes(state.parts()))
    assert (again.row_passes, again.seconds) == (state.row_passes, state.seconds)
    assert state.seconds > 0.0


def test_an_evaluation_between_steps_changes_nothing():
    straight, recipe = run()
    list(train(straight, recipe))
    probed, recipe = run()
    for _ in train(probed, recipe):
        accuracy_under_pgd(probed.model, [tiny_batch()], Adversary(kind="pgd", steps=1), torch.Generator())
    assert_same_bits(straight, probed)


def test_the_seed_decides():
    weights = []
    for seed in (5, 5, 6):
        state, recipe = run(seed=seed)
        list(train(state, recipe))
        weights.append(state.model.state_dict()["classifier.weight"])
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_training_leaves_the_callers_random_numbers_alone():
    state, recipe = run(total=1)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    list(train(state, recipe))
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("clip", [0.05, 1000.0])
def test_one_step_is_the_clipped_gradient_of_loss_and_penalty(clip):
    """Against plain gradient descent written out by hand, in float64."""
    state, recipe = run(dropout=0.0, total=4)
    state.model.double()
    groups = [{"params": [*state.model.parameters(), *state.gates.parameters()], "lr": 0.5, "full_lr": 0.5}]
    state.optimizer = torch.optim.SGD(groups)
    recipe = Recipe(**{**vars(recipe), "clip": clip, "warmup": 0.25})
    before = copy.deepcopy(dict(state.model.named_parameters()))
    coefficients = state.gates.heads.detach().clone()

    twin, _ = run(dropout=0.0)
    twin.model.double()
    seen: list[torch.Generator] = []

    def remember(model, batch, loss, adversary, generator):
        seen.append(generator.clone_state())
        return backward(model, batch, loss, adversary, generator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tune_tickets.training.loop.backward", remember)
        next(iter(train(state, recipe)))

    backward(twin.model, recipe.batches[0], cross_entropy, FREELB, seen[0])
    twin.gates.heads.grad += 0.01 * twin.gates.heads.detach().sign()
    twin.gates.neurons.grad += 0.001 * twin.gates.neurons.detach().sign()
    gradients = [p.grad.double() for p in (*twin.model.parameters(), *twin.gates.parameters())]
    norm = sum(gradient.square().sum() for gradient in gradients).sqrt()
    rate = 0.5 * (1 / 2) * min(1.0, clip / float(norm))  # the first of one warm-up step has half the rate
    for name, parameter in twin.model.named_parameters():
        torch.testing.assert_close(
            state.model.get_parameter(name), before[name] - rate * parameter.grad, rtol=1e-5, atol=1e-7
        )
    torch.testing.assert_close(state.gates.heads, coefficients - rate * twin.gates.heads.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
def test_a_step_runs_on_the_meta_device(family, kind):
    state, recipe = run(family, adversary=Adversary(kind=kind, steps=2), device="meta", total=2)
    for _, loss in train(state, recipe):
        assert loss.device.type == "meta"
    assert all(parameter.device.type == "meta" for parameter in state.model.parameters())
    assert state.gates.heads.device.type == "meta"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pruned_model_trains_on_the_meta_device(family):
    state, recipe = run(family, adversary=Adversary(kind="none"), device="meta", total=1)
    prune(state.model, draw(*random_scores(2, 4, 24, seed=0), heads=0.25, neurons=0.3))
    ticket = TrainState(tiny_model(family, "eager").to("meta"), state.optimizer)
    prune(ticket.model, draw(*random_scores(2, 4, 24, seed=0), heads=0.25, neurons=0.3))
    ticket.optimizer = build_optimizer(ticket.model, 1e-3, 0.01)
    assert len(list(train(ticket, Recipe(**{**vars(recipe), "penalty": None})))) == 1


def test_training_learns_the_rows_it_sees():
    state, recipe = run(total=60, adversary=Adversary(kind="none"), dropout=0.0)
    losses = [loss.item() for _, loss in train(state, recipe)]
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])


@pytest.mark.parametrize("damage", [b"", b"nothing of the kind"])
def test_a_damaged_checkpoint_is_refused(damage):
    state, _ = run()
    with pytest.raises(StoreError, match="checkpoint of a training cannot be read"):
        state.restore(damage)


def test_a_cut_checkpoint_is_refused():
    state, _ = run()
    with pytest.raises(StoreError, match="checkpoint of a training cannot be read"):
        state.restore(to_bytes(state.parts())[:-100])


def test_a_checkpoint_of_another_model_is_refused():
    state, _ = run("bert")
    other, _ = run("roberta")
    with pytest.raises(StoreError, match="another model"):
        other.restore(to_bytes(state.parts()))


def test_dropout_is_on_while_training():
    assert tiny_config("bert", 0.2).hidden_dropout_prob == 0.2
    state, recipe = run()
    next(iter(train(state, recipe)))
    assert state.model.training
