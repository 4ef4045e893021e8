import copy
import math
from collections import Counter

import pytest
import torch

from tests.models.tiny import FAMILIES, HEADS, LAYERS, NEURONS, tiny_batch, tiny_model
from tests.training.sessions import Session, checkpoint_of
from tune_tickets.config.training import Adversary
from tune_tickets.errors import StoreError
from tune_tickets.methods.robustt import RobustT
from tune_tickets.methods.robustt.masks import Search, ramp, structured_scores
from tune_tickets.models.families import family_of
from tune_tickets.tickets.drawing import draw, draw_unstructured
from tune_tickets.training.batches import EncodedRows

FREELB = Adversary(kind="freelb", steps=3, step_size=0.1)


def rows(family: str = "bert") -> EncodedRows:
    batch = tiny_batch(family, rows=20)
    return EncodedRows(
        batch["input_ids"].int(), batch.get("token_type_ids"), batch["attention_mask"].sum(dim=1), batch["labels"]
    )


def search(family="bert", device="cpu", seed=5, dropout=0.2, **settings) -> Search:
    settings = {"adversary": FREELB, "epochs": 3.0, "batch_size": 8, "learning_rate": 0.3, **settings}
    # SDPA's mask is prepared by looking at its values, which meta tensors do not have.
    model = tiny_model(family, "eager" if device == "meta" else "sdpa", dropout).to(device)
    return Search(RobustT(**settings), model, rows(family), seed, device)


def run(found: Search, session: Session | None = None) -> Search:
    found.run(session or Session())
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_only_masks_train_and_nothing_else_has_a_gradient_or_optimizer_state(family):
    found = search(family)
    before = copy.deepcopy(found.model.state_dict())
    seen = []
    # After a step, zero_grad has cleared the gradients of the logits, but not those of the model's own parameters.
    run(found, Session(lambda step: seen.append([parameter.grad for parameter in found.model.parameters()])))
    assert len(seen) == 9
    assert all(gradient is None for gradients in seen for gradient in gradients)
    assert all(parameter.grad is None for parameter in found.model.parameters())
    assert not any(parameter.requires_grad for parameter in found.model.parameters())
    after = found.model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert set(found.optimizer.state) == set(found.gates.parameters())
    shapes = {name: linear.weight.shape for name, linear in family_of(found.model).weight_matrices(found.model).items()}
    assert {name: score.shape for name, score in found.gates.scores().items()} == shapes
    assert all((score - math.log(5)).abs().max() > 0.01 for score in found.gates.scores().values())


def test_no_gradient_of_the_frozen_model_is_computed_even_within_a_step():
    found = search(adversary=Adversary(kind="none"))
    reached = Counter()
    with found.attached():
        for name, parameter in found.model.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(lambda gradient, name=name: reached.update([name]))
        next(found.steps())
    assert len(reached) == 13
    assert all(name.endswith("log_alpha") for name in reached)


@pytest.mark.parametrize("noise", ["pass", "step"])
@pytest.mark.parametrize("stop", [1, 3, 5, 8])
def test_interrupted_after_any_step_and_resumed_it_ends_with_the_same_bits(noise, stop):
    torch.manual_seed(1)
    straight = run(search(noise=noise))

    torch.manual_seed(2)
    broken = Session(torch.rand)
    run(search(noise=noise), broken)
    session = Session(stored=broken.kept[stop])
    resumed = run(search(noise=noise), session)

    assert session.steps == list(range(stop + 1, 10))
    assert resumed.history == straight.history
    for name, score in straight.gates.scores().items():
        assert torch.equal(resumed.gates.scores()[name], score)
    for one, other in zip(straight.gates.parameters(), resumed.gates.parameters(), strict=True):
        for key in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(straight.optimizer.state[one][key], resumed.optimizer.state[other][key])


def test_the_seed_decides():
    first, same, other = (run(search(seed=seed)).gates.scores() for seed in (5, 5, 6))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_a_checkpoint_of_something_else_is_refused():
    with pytest.raises(StoreError, match="belongs to another model"):
        search(grouping="structured").restore(checkpoint_of(search()))


@pytest.mark.parametrize("noise", ["pass", "step"])
@pytest.mark.parametrize("kind", ["freelb", "pgd"])
def test_gates_are_sampled_anew_at_every_pass_or_kept_over_a_step(noise, kind):
    # A fixed dropout mask must not fix the gates along with it.
    adversary = Adversary(kind=kind, steps=3, step_size=0.1, fixed_dropout=True)
    found = search(noise=noise, adversary=adversary, learning_rate=1e-9, epochs=2 / 3)
    weights = []
    linear = found.model.bert.pooler.dense
    matrix = found.gates.matrices[-1]
    matrix.register_forward_hook(lambda module, inputs, output: weights.append(output.detach().clone()))
    run(found)
    weights = weights[1:]  # registration looks once
    passes = 3 if kind == "freelb" else 4
    assert linear.weight.shape == weights[0].shape
    assert len(weights) == 2 * passes
    first, second = weights[:passes], weights[passes:]
    assert all(torch.equal(weight, first[0]) == (noise == "step") for weight in first[1:])
    assert not torch.equal(first[-1], second[0])


def test_the_first_step_is_the_clipped_gradient_of_adversarial_loss_and_penalty():
    """Against the objective written out: K passes with loss / K, R once, a clip that sees masks only."""
    found = search(
        dropout=0.0,
        adversary=Adversary(kind="freelb", steps=2, step_size=0.1, initial_magnitude=0.0),
        noise="step",
        penalty=0.7,
        penalty_start=0.0,
        penalty_ramp=0.0,
        clip=1e-3,
    )
    model, batch = found.model, found.recipe.batches[0]
    gradients = {}
    for name, matrix in zip(found.gates.names, found.gates.matrices, strict=True):
        matrix.log_alpha.register_post_accumulate_grad_hook(
            lambda parameter, name=name: gradients.update({name: parameter.grad.clone()})
        )
    clipped = {}
    found.optimizer.register_step_pre_hook(
        lambda *_: clipped.update(
            {n: m.log_alpha.grad.clone() for n, m in zip(found.gates.names, found.gates.matrices, strict=True)}
        )
    )
    noise = {}
    with found.attached():
        next(found.steps())
        for name, matrix in zip(found.gates.names, found.gates.matrices, strict=True):
            noise[name] = matrix._kept

    logits = {name: torch.full_like(noise[name], math.log(5)).requires_grad_(True) for name in noise}
    frozen = dict(model.named_parameters())
    gated = {
        name: frozen[name] * (1.2 * torch.sigmoid(1.5 * (noise[name] + logits[name])) - 0.1).clamp(0, 1)
        for name in noise
    }
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}

    def loss(delta: torch.Tensor) -> torch.Tensor:
        handle = family_of(model).word_embeddings(model).register_forward_hook(lambda module, i, output: output + delta)
        output = torch.func.functional_call(model, gated, kwargs=inputs)
        handle.remove()
        return torch.nn.functional.cross_entropy(output.logits, batch["labels"])

    delta = torch.zeros(*batch["input_ids"].shape, 32, requires_grad=True)
    first = loss(delta)
    (slope,) = torch.autograd.grad(first, delta, retain_graph=True)
    slope = slope * batch["attention_mask"].unsqueeze(-1)
    second = loss(0.1 * slope / slope.flatten(1).norm(dim=1).view(-1, 1, 1))
    alive = torch.cat([torch.sigmoid(logit + math.log(11) / 1.5).flatten() for logit in logits.values()])
    objective = (first + second) / 2 + 0.7 * alive.mean()
    expected = dict(zip(logits, torch.autograd.grad(objective, list(logits.values())), strict=True))
    for name in logits:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-4, atol=1e-7)
    norm = torch.cat([gradient.flatten() for gradient in expected.values()]).norm()
    assert norm > 1e-3
    for name in logits:
        torch.testing.assert_close(clipped[name], expected[name] * 1e-3 / norm, rtol=1e-3, atol=1e-9)


def test_history_has_a_record_per_epoch_with_the_penalty_and_the_shares_of_binary_masks():
    epochs = []
    found = search(penalty=50.0, learning_rate=1.0, epochs=8.0)
    run(found, Session(on_record=lambda record: epochs.append(found.step)))
    assert epochs == [3, 6, 9, 12, 15, 18, 21, 24]
    assert [record["step"] for record in found.history] == [1, 2, 3, 4, 5, 6, 7, 8]
    last = found.history[-1]
    scores = torch.cat([score.flatten() for score in found.gates.scores().values()])
    assert last["penalty"] == pytest.approx(torch.sigmoid(scores + math.log(11) / 1.5).mean().item(), abs=1e-5)
    # The gate is 0 where sigmoid <= 1/12 and 1 where it is >= 11/12.
    assert last["masks_zero"] == pytest.approx(100 * (scores <= -math.log(11)).float().mean().item(), abs=1e-3)
    assert last["masks_one"] == pytest.approx(100 * (scores >= math.log(11)).float().mean().item(), abs=1e-3)
    assert 20 < last["masks_zero"] < 100
    assert last["penalty"] < found.history[0]["penalty"] < 1


def test_without_a_penalty_weight_the_regulariser_changes_nothing():
    off = run(search(penalty=0.0))
    late = run(search(penalty=10.0, penalty_start=0.99, penalty_ramp=0.0))
    on = run(search(penalty=10.0, penalty_start=0.0, penalty_ramp=0.0))
    assert all(torch.equal(off.gates.scores()[name], late.gates.scores()[name]) for name in off.gates.names)
    assert on.history[-1]["penalty"] < off.history[-1]["penalty"]


def test_lambda_is_zero_then_linear_then_constant():
    values = [ramp(step, 100, 0.1, 0.3) for step in range(100)]
    assert values[:11] == [0.0] * 11
    assert values[25] == pytest.approx(0.5)
    assert values[39] == pytest.approx(29 / 30)
    assert values[40:] == pytest.approx([1.0] * 60)
    assert [ramp(step, 4, 0.5, 0.0) for step in range(4)] == [0.0, 0.0, 1.0, 1.0]


def test_one_search_gives_tickets_of_any_sparsity():
    scores = run(search()).gates.scores()
    total = sum(score.numel() for score in scores.values())
    for tenths in range(1, 10):
        assert draw_unstructured(scores, tenths / 10).weights_cut() == math.ceil(round(tenths * total / 10, 6))


def test_structured_gates_give_scores_of_heads_and_neurons_in_the_order_of_their_logits():
    found = run(search(grouping="structured", noise="step"))
    scores = found.gates.scores()
    heads, neurons = structured_scores(found.model, scores)
    assert (heads.shape, neurons.shape) == ((LAYERS, HEADS), (LAYERS, NEURONS))
    logits = torch.cat([scores[f"bert.encoder.layer.{layer}.attention.output.dense.weight"] for layer in range(LAYERS)])
    assert torch.equal(logits.flatten().argsort(), heads.flatten().argsort())
    mask = draw(heads, neurons, heads=1 / 4, neurons=0.3)
    assert mask.heads_sparsity == pytest.approx(1 / 4)
    lowest = torch.cat([scores[f"bert.encoder.layer.{layer}.output.dense.weight"] for layer in range(LAYERS)])
    assert torch.equal(mask.neurons, lowest > lowest.flatten().kthvalue(15).values)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("grouping", ["weight", "structured"])
def test_one_step_runs_on_the_meta_device(family, grouping):
    found = search(family, "meta", grouping=grouping)
    with found.attached():
        step, loss = next(found.steps())
    assert (step, loss.device.type) == (1, "meta")


def test_without_an_adversary_a_search_is_one_with_a_single_unperturbed_pass():
    none, single, freelb = (
        run(search(adversary=adversary)).gates.scores()
        for adversary in (Adversary(kind="none"), Adversary(steps=1, initial_magnitude=0.0), FREELB)
    )
    assert all(torch.equal(none[name], single[name]) for name in none)
    assert not any(torch.equal(none[name], freelb[name]) for name in none)
