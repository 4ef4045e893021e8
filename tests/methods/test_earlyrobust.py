"""How EarlyRobust finds its scores: one step on any device, the objective of eq. 7, the ends of mini-epochs."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, RobertaConfig, RobertaForSequenceClassification

from tests.training.sessions import Session
from tune_tickets.config.training import Adversary
from tune_tickets.methods.earlyrobust import EarlyRobust
from tune_tickets.methods.earlyrobust.finding import Search
from tune_tickets.training.batches import EncodedRows

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 50}


def model_of(family: str, device: str = "cpu", **changes):
    config, kind = {
        "bert": (BertConfig, BertForSequenceClassification),
        "roberta": (RobertaConfig, RobertaForSequenceClassification),
    }[family]
    torch.manual_seed(0)
    with torch.device(device):
        return kind(config(**SIZES, attn_implementation="eager", **changes))


def rows_of(count: int) -> EncodedRows:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 50, (count, 6), generator=generator, dtype=torch.int32)
    return EncodedRows(ids, None, torch.full((count,), 6), torch.arange(count) % 2)


class Enough(Exception):
    """Raised to leave a search after a step."""


def stop(step: int) -> None:
    raise Enough


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
def test_one_step_runs_on_the_meta_device(family, kind):
    method = EarlyRobust(adversary=Adversary(kind=kind, steps=2), batch_size=4, mini_epoch=1.0)
    search = Search(method, model_of(family, "meta"), rows_of(8), seed=0, device="meta")
    with pytest.raises(Enough):
        search.run(Session(on_step=stop))
    assert search.gates.heads.device.type == "meta"


def test_a_step_descends_the_loss_plus_the_penalty_of_both_kinds():
    """Eq. 7 by autograd in one piece: c after a step of AdamW is 1 - lr x sign of the gradient of loss + penalty."""
    method = EarlyRobust(
        adversary=Adversary(kind="none"), batch_size=4, penalty_heads=5.0, penalty_neurons=7.0, warmup=0.0,
        learning_rate=1e-3, epochs=1.0, mini_epoch=1.0, clip=1000.0,
    )  # fmt: skip
    search = Search(method, model_of("bert", hidden_dropout_prob=0.0), rows_of(4), seed=0, device="cpu")
    search.run(Session())
    # The penalties outweigh any gradient of the loss, so every coefficient moves down by one full Adam step.
    assert torch.allclose(search.trajectory.heads, torch.full((1, 2, 2), 1 - 1e-3), atol=1e-6)
    assert torch.allclose(search.trajectory.neurons, torch.full((1, 2, 24), 1 - 1e-3), atol=1e-6)


def test_without_penalty_and_signal_coefficients_follow_their_own_learning_rate():
    method = EarlyRobust(
        adversary=Adversary(kind="none"), batch_size=4, penalty_heads=0.0, penalty_neurons=0.0, warmup=0.0,
        learning_rate=1e-5, coefficient_learning_rate=1e-2, mini_epoch=1.0, clip=1000.0,
    )  # fmt: skip
    search = Search(method, model_of("bert"), rows_of(4), seed=0, device="cpu")
    search.run(Session())
    moved = (search.trajectory.heads - 1).abs()
    assert float(moved.max()) == pytest.approx(1e-2, rel=0.05)


@pytest.mark.parametrize("left", [3, 4])
def test_a_search_can_be_left_and_taken_up_after_any_step(left):
    method = EarlyRobust(adversary=Adversary(steps=2), batch_size=4, learning_rate=1e-3, mini_epoch=0.25)
    whole = Search(method, model_of("bert"), rows_of(32), seed=3, device="cpu")
    first = Session()
    whole.run(first)
    assert whole.ends == (2, 4, 6, 8)
    resumed = Search(method, model_of("bert"), rows_of(32), seed=3, device="cpu")
    second = Session(stored=first.kept[left])
    resumed.run(second)
    assert second.steps == list(range(left + 1, 9))
    assert torch.equal(resumed.trajectory.heads, whole.trajectory.heads)
    assert torch.equal(resumed.trajectory.neurons, whole.trajectory.neurons)
    assert second.records == first.records
    assert len(second.records) == 4


def test_without_a_regulariser_the_coefficients_follow_the_loss_alone():
    """The ablation of Table 3, against the derivative of a model whose output projections are scaled by hand."""
    method = EarlyRobust(
        adversary=Adversary(kind="none"), batch_size=4, penalty_heads=0.0, penalty_neurons=0.0, warmup=0.0,
        learning_rate=1e-3, epochs=1.0, mini_epoch=1.0, clip=1000.0,
    )  # fmt: skip
    changes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.5}
    search = Search(method, model_of("bert", **changes), rows_of(4), seed=0, device="cpu")
    batch = search.recipe.batches[0]
    model = model_of("bert", **changes)
    scales = {f"bert.encoder.layer.{layer}.attention.output.dense.weight": torch.ones(2) for layer in (0, 1)}
    scales |= {f"bert.encoder.layer.{layer}.output.dense.weight": torch.ones(24) for layer in (0, 1)}
    for scale in scales.values():
        scale.requires_grad_(True)
    weights = {
        name: model.get_parameter(name).detach() * scale.repeat_interleave(16 // len(scale) if len(scale) == 2 else 1)
        for name, scale in scales.items()
    }
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits = torch.func.functional_call(model, weights, kwargs=inputs).logits
    torch.nn.functional.cross_entropy(logits, batch["labels"]).backward()
    search.run(Session())
    for layer in (0, 1):
        for found, name in (
            (search.trajectory.heads[0, layer], f"bert.encoder.layer.{layer}.attention.output.dense.weight"),
            (search.trajectory.neurons[0, layer], f"bert.encoder.layer.{layer}.output.dense.weight"),
        ):
            slope = scales[name].grad
            clear = slope.abs() > 1e-5  # Adam's first step has length lr only where the gradient is above its epsilon
            assert bool(clear.any())
            assert torch.allclose(found[clear], 1 - 1e-3 * slope.sign()[clear], atol=2e-6)


def test_without_an_adversary_a_search_is_one_with_a_single_unperturbed_pass():
    found = {}
    for name, adversary in {
        "none": Adversary(kind="none"),
        "single": Adversary(kind="freelb", steps=1, initial_magnitude=0.0),
        "freelb": Adversary(kind="freelb", steps=3, step_size=0.5),
    }.items():
        method = EarlyRobust(adversary=adversary, batch_size=4, learning_rate=1e-3, mini_epoch=0.5)
        search = Search(method, model_of("bert"), rows_of(16), seed=3, device="cpu")
        search.run(Session())
        found[name] = search.trajectory.neurons
    assert torch.equal(found["none"], found["single"])
    assert not torch.equal(found["none"], found["freelb"])
