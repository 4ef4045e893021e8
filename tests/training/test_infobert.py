"""InfoBERT's loss compared with plain loops in float64, finite differences and values by hand."""

import math

import pytest
import torch

from tests.models.tiny import FAMILIES, WIDTH, tiny_batch, tiny_model, without_labels
from tests.training.sessions import checkpoint_of
from tune_tickets.config.training import Adversary, Regulariser
from tune_tickets.models.families import family_of
from tune_tickets.models.families.base import POOLING
from tune_tickets.training.adversary import adversary_of, perturbed
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.infobert import (
    Critic,
    InfoBert,
    anchored_information,
    anchored_words,
    bottleneck,
    word_mask,
)
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.trainer import Recipe, Trainer

STRONG = Regulariser(alpha=0.7, beta=0.3, low=0.25, high=0.8, critic_width=6)
FRAME = frozenset({2, 3, 0, 1})


def framed(family: str, tokens: int = 9) -> dict[str, torch.Tensor]:
    """A batch whose rows open with token 2 and close with token 3, as a tokenizer would have it."""
    batch = tiny_batch(family, tokens=tokens)
    batch["input_ids"][:, 0] = 2
    for row, length in enumerate(batch["attention_mask"].sum(dim=1).tolist()):
        batch["input_ids"][row, length - 1] = 3
    return batch


def features(model, batch, delta):
    """Task loss, local and global features, computed from perturbed input embeddings."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    if model.config.model_type == "roberta":  # real tokens count from 2, padding is 1
        positions = torch.where(mask.bool(), positions + 2, 1)
    types = batch.get("token_type_ids", torch.zeros_like(ids))
    vectors = family_of(model).word_embeddings(model)(ids) + delta
    local = model.base_model.embeddings(inputs_embeds=vectors, position_ids=positions, token_type_ids=types)
    inputs = {"inputs_embeds": vectors, "position_ids": positions, "token_type_ids": types, "attention_mask": mask}
    last = model.base_model(**inputs).last_hidden_state
    return torch.nn.functional.cross_entropy(model(**inputs).logits, batch["labels"]), local, last[:, 0]


def gradients_of_local(model, batch, delta) -> torch.Tensor:
    """The task loss's gradient at the local features, by a hook on the embedding layer."""
    seen = []

    def keep(module, inputs, output):
        output.retain_grad()
        seen.append(output)

    handle = model.base_model.embeddings.register_forward_hook(keep)
    with perturbed(family_of(model).word_embeddings(model), delta):
        cross_entropy(model, batch).backward()
    handle.remove()
    model.zero_grad()
    return seen[0].grad


def score(critic: Critic, local, sentence) -> torch.Tensor:
    hidden = critic.hidden.weight @ torch.cat([local, sentence]) + critic.hidden.bias
    return (1 + (critic.score.weight @ hidden.clamp(min=0) + critic.score.bias).exp()).log().squeeze()


def expected(model, batch, settings, critic, delta) -> torch.Tensor:
    """The whole loss in loops over words."""
    task, local, sentence = features(model, batch, delta)
    norms = gradients_of_local(model, batch, delta).square().sum(dim=-1).sqrt()
    words = [
        [token for token in range(length) if int(ids[token]) not in FRAME]
        for ids, length in zip(batch["input_ids"], batch["attention_mask"].sum(dim=1).tolist(), strict=True)
    ]
    every = [local[row, token] for row, tokens in enumerate(words) for token in tokens]
    pairs = [(one - other).square().sum() / 2 for one in every for other in every]
    anchors = []
    for row, tokens in enumerate(words):
        ranked = sorted(tokens, key=lambda token: float(norms[row, token]))
        first, end = math.ceil(settings.low * len(ranked)), math.ceil(settings.high * len(ranked))
        anchors += [(row, token) for token in ranked[first:end]]
    information = []
    for row, token in anchors:
        own = score(critic, local[row, token], sentence[row])
        others = [score(critic, local[at], sentence[row]).exp() for at in anchors]
        information.append(own - (sum(others) / len(others)).log())
    return task + settings.beta * sum(pairs) / len(pairs) - settings.alpha * sum(information) / len(information)


def setting(family: str, settings: Regulariser = STRONG, dtype=torch.float64, device="cpu", dropout=0.0):
    kernel = "eager" if device == "meta" else "sdpa"
    model = tiny_model(family, kernel, dropout).to(device, dtype)
    critic = Critic(WIDTH, settings.critic_width, seed=3).to(device, dtype)
    return model, critic, InfoBert(settings, critic, FRAME)


def some_delta(batch) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    noise = torch.randn(*batch["input_ids"].shape, WIDTH, generator=generator, dtype=torch.float64)
    return 0.1 * noise * batch["attention_mask"].unsqueeze(-1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("change", [{}, {"alpha": 0.0}, {"beta": 0.0}, {"low": 0.0}, {"high": 1.0}])
def test_the_loss_is_that_of_plain_loops_on_the_perturbed_input(family, change):
    settings = STRONG.model_copy(update=change)
    model, critic, loss = setting(family, settings)
    batch = framed(family)
    delta = some_delta(batch)
    with perturbed(family_of(model).word_embeddings(model), delta):
        found = loss(model, batch)
    torch.testing.assert_close(found, expected(model, batch, settings, critic, delta), rtol=1e-10, atol=1e-12)


def test_every_setting_changes_the_loss():
    batch = framed("bert", tokens=12)
    values = []
    for change in ({}, {"alpha": 0.1}, {"beta": 0.1}, {"low": 0.1}, {"high": 0.5}, {"critic_width": 9}):
        model, _, loss = setting("bert", STRONG.model_copy(update=change))
        values.append(loss(model, batch).item())
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_agree_with_finite_differences(family):
    model, critic, loss = setting(family)
    batch = framed(family)
    loss(model, batch).backward()
    generator = torch.Generator().manual_seed(0)
    parts = [*model.named_parameters(), *((f"critic.{name}", part) for name, part in critic.named_parameters())]
    assert len(parts) > 30
    for name, part in parts:
        direction = torch.randn(part.shape, generator=generator, dtype=torch.float64)
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                part.add_(direction, alpha=sign * 1e-6)
            values.append(loss(model, batch).item())
            with torch.no_grad():
                part.sub_(direction, alpha=sign * 1e-6)
        slope = (values[0] - values[1]) / 2e-6
        found = 0.0 if part.grad is None else float((part.grad * direction).sum())
        assert found == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_more_padding_changes_nothing():
    model, _, loss = setting("bert")
    batch = framed("bert")
    longer = {name: torch.nn.functional.pad(tensor, (0, 4)) for name, tensor in batch.items() if name != "labels"}
    torch.testing.assert_close(loss(model, longer | {"labels": batch["labels"]}), loss(model, batch))


def test_words_are_neither_padding_nor_framing_tokens():
    batch = {
        "input_ids": torch.tensor([[2, 7, 8, 3, 9, 3], [2, 7, 3, 0, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]),
    }
    assert word_mask(batch, frozenset({2, 3})).int().tolist() == [[0, 1, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0]]


def test_the_bottleneck_by_hand():
    """Words at (0, 0), (2, 0) and (0, 2): squared distances 4, 4 and 8, each twice among 9 pairs; half their mean."""
    local = torch.tensor([[[9.0, 9.0], [0.0, 0.0], [2.0, 0.0]], [[0.0, 2.0], [5.0, 5.0], [7.0, 7.0]]])
    words = torch.tensor([[False, True, True], [True, False, False]])
    assert float(bottleneck(local, words)) == pytest.approx(16 / 9)
    assert float(bottleneck(local, torch.zeros_like(words))) == 0.0


def test_anchored_words_by_hand():
    """Ten words: ranks 5 to 8 of 0 to 9. Three words: ceil(1.5) = 2 to ceil(2.7) - 1 = 2. One word: none."""
    norms = torch.tensor(
        [
            [99.0, 5.0, 1.0, 9.0, 3.0, 7.0, 2.0, 8.0, 4.0, 6.0, 10.0, 0.0],
            [99.0, 3.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [99.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    words = torch.zeros(3, 12, dtype=torch.bool)
    words[0, 1:11] = words[1, 1:4] = words[2, 1:2] = True
    chosen, counts = anchored_words(norms, words, low=0.5, high=0.9)
    found = [chosen[row][counts[row]].tolist() for row in range(3)]
    assert found == [[9, 5, 7, 3], [1], []]  # norms 6, 7, 8 and 9; norm 3; nothing


def test_equal_gradients_are_ranked_by_position():
    chosen, counts = anchored_words(torch.ones(1, 4), torch.ones(1, 4, dtype=torch.bool), low=0.5, high=1.0)
    assert chosen[counts].tolist() == [2, 3]


def test_anchored_information_by_hand():
    """Own scores 2, others 0: 2 - log((e^2 + 1) / 2) for both."""
    scores = torch.tensor([[[2.0], [0.0]], [[0.0], [2.0]]], dtype=torch.float64)
    counts = torch.ones(2, 1, dtype=torch.bool)
    assert float(anchored_information(scores, counts)) == pytest.approx(0.5662192, abs=1e-7)
    alone = torch.tensor([[True], [False]])
    assert float(anchored_information(scores, alone)) == 0.0


def test_a_batch_without_an_anchored_word_trains_on():
    model, critic, loss = setting("bert", dtype=torch.float32)
    batch = {name: tensor[:, :3] if tensor.ndim == 2 else tensor for name, tensor in framed("bert").items()}
    batch["input_ids"][:, 2] = 3  # one word per row: ceil(0.25) = ceil(0.8) = 1
    loss(model, batch).backward()
    assert all(part.grad is None or torch.isfinite(part.grad).all() for part in model.parameters())
    assert all(not part.grad.any() for part in critic.parameters())


def test_freelb_gives_the_critic_the_mean_gradient_of_its_passes():
    adversary = Adversary(kind="freelb", steps=3, step_size=0.3, initial_magnitude=0.2)
    model, critic, loss = setting("bert")
    batch = framed("bert")
    deltas = []

    def remember(network, rows):
        deltas.append(family_of(network).word_embeddings(network)(rows["input_ids"]).detach().clone())
        return loss(network, rows)

    adversary_of(adversary).backward(model, batch, remember, torch.Generator().manual_seed(1))
    found = [part.grad.clone() for part in critic.parameters()]
    plain = family_of(model).word_embeddings(model)(batch["input_ids"]).detach()
    wanted = [torch.zeros_like(part) for part in found]
    for vectors in deltas:
        critic.zero_grad()
        with perturbed(family_of(model).word_embeddings(model), vectors - plain):
            loss(model, batch).backward()
        wanted = [total + part.grad / 3 for total, part in zip(wanted, critic.parameters(), strict=True)]
    assert len({vectors.norm().item() for vectors in deltas}) == 3
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


class WithCritic(Trainer):
    def __init__(self, critic, *others) -> None:
        super().__init__(*others)
        self.critic = critic

    def parts(self):
        return {"model": self.model, "critic": self.critic}


def run(family="bert", kind="freelb", device="cpu", total=5) -> WithCritic:
    model, critic, loss = setting(family, dtype=torch.float32, device=device, dropout=0.2)
    batch = tiny_batch(family, rows=20)
    rows = EncodedRows(
        batch["input_ids"].int(), batch.get("token_type_ids"), batch["attention_mask"].sum(dim=1), batch["labels"]
    )
    recipe = Recipe(
        batches=Batches(rows, 8, 5, device),
        loss=loss,
        adversary=Adversary(kind=kind, steps=2, step_size=0.1),
        total_steps=total,
        warmup=0.1,
        clip=1.0,
        seed=5,
    )
    optimizer = build_optimizer(torch.nn.ModuleList([model, critic]), 1e-2, 0.01)
    return WithCritic(critic, model, optimizer, recipe)


def everything(state: WithCritic) -> list[torch.Tensor]:
    tensors = [*state.model.state_dict().values(), *state.critic.state_dict().values()]
    return tensors + [value for entry in state.optimizer.state_dict()["state"].values() for value in entry.values()]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
def test_interrupted_and_resumed_it_ends_with_the_same_bits(family, kind):
    straight = run(family, kind)
    before = straight.critic.score.weight.detach().clone()
    list(straight.steps())
    assert not torch.equal(before, straight.critic.score.weight)
    broken = run(family, kind)
    next(step for step, _ in broken.steps() if step == 2)
    resumed = run(family, kind)
    resumed.restore(checkpoint_of(broken))
    list(resumed.steps())
    assert all(torch.equal(one, other) for one, other in zip(everything(straight), everything(resumed), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
def test_a_step_runs_on_the_meta_device(family, kind):
    trainer = run(family, kind, device="meta", total=1)
    assert [loss.device.type for _, loss in trainer.steps()] == ["meta"]


def test_the_critic_starts_from_its_seed_and_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    one, other, same = Critic(8, 4, seed=0), Critic(8, 4, seed=1), Critic(8, 4, seed=0)
    assert torch.equal(torch.rand(1), wanted)
    assert torch.equal(one.hidden.weight, same.hidden.weight)
    assert not torch.equal(one.hidden.weight, other.hidden.weight)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_the_global_feature_is_what_the_classifier_reads(pooling):
    model, critic, loss = setting("bert")
    if pooling == "mean":
        model.config.update({POOLING: "mean"})
        family_of(model).attach_pooling(model)
    batch, seen = framed("bert"), []
    critic.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1]))
    loss(model, batch).backward()
    states = model(**without_labels(batch), output_hidden_states=True).hidden_states[-1]
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    sentence = [
        row[:length].mean(dim=0) if pooling == "mean" else row[0] for row, length in zip(states, lengths, strict=True)
    ]
    assert (seen[0] - torch.stack(sentence)).abs().max() < 1e-12
