"""How ORTicket finds its scores: eq. 7 with the masked-LM loss, for both families, interrupted and resumed."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

from tests.training.sessions import Session
from tune_tickets.config.training import Adversary
from tune_tickets.methods.earlyrobust import EarlyRobust
from tune_tickets.methods.orticket import ORTicket
from tune_tickets.methods.orticket.finding import masked_search
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.masked_lm import Masking

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 50}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.5}
MASKING = Masking(probability=0.4, mask_id=4, vocabulary=50, special_ids=(0, 1, 2, 3, 4))
FREE = {"penalty_heads": 0.0, "penalty_neurons": 0.0, "warmup": 0.0, "mini_epoch": 1.0, "clip": 1000.0}


def model_of(family: str, device: str = "cpu", **changes):
    config, kind = {"bert": (BertConfig, BertForMaskedLM), "roberta": (RobertaConfig, RobertaForMaskedLM)}[family]
    torch.manual_seed(0)
    with torch.device(device):
        return kind(config(**SIZES, attn_implementation="eager", **changes))


def blocks_of(count: int) -> EncodedRows:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 50, (count, 8), generator=generator, dtype=torch.int32)
    return EncodedRows(ids, None, torch.full((count,), 8), torch.zeros(count, dtype=torch.long))


def search_of(method: ORTicket, model, blocks: int, seed: int = 0, device: str = "cpu"):
    return masked_search(method, model, blocks_of(blocks), MASKING, seed, device)


class Enough(Exception):
    """Raised to leave a search after a step."""


def stop(step: int) -> None:
    raise Enough


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
@pytest.mark.parametrize("perturb_masked", [True, False])
def test_one_step_runs_on_the_meta_device(family, kind, perturb_masked):
    adversary = Adversary(kind=kind, steps=2)
    method = ORTicket(adversary=adversary, batch_size=4, perturb_masked=perturb_masked, mini_epoch=1.0)
    search = search_of(method, model_of(family, "meta"), 8, device="meta")
    with pytest.raises(Enough):
        search.run(Session(on_step=stop))
    assert search.gates.heads.device.type == "meta"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_coefficients_follow_the_masked_lm_loss_that_transformers_computes(family):
    """One step of AdamW is lr x sign of the slope, taken of a model whose output projections are scaled by hand."""
    method = ORTicket(adversary=Adversary(kind="none"), batch_size=4, learning_rate=1e-3, **FREE)
    search = search_of(method, model_of(family, **STILL), 4)
    batch = search.recipe.batches[0]
    model = model_of(family, **STILL)
    names = [f"{family}.encoder.layer.{layer}.attention.output.dense.weight" for layer in (0, 1)]
    names += [f"{family}.encoder.layer.{layer}.output.dense.weight" for layer in (0, 1)]
    scales = {name: torch.ones(2 if "attention" in name else 24, requires_grad=True) for name in names}
    weights = {
        name: model.get_parameter(name).detach() * scale.repeat_interleave(8 if "attention" in name else 1)
        for name, scale in scales.items()
    }
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}
    torch.func.functional_call(model, weights, kwargs=inputs).loss.backward()
    before = {name: parameter.detach().clone() for name, parameter in search.model.named_parameters()}
    search.run(Session())
    for index, name in enumerate(names):
        found = (search.trajectory.heads if "attention" in name else search.trajectory.neurons)[0, index % 2]
        slope = scales[name].grad
        clear = slope.abs() > 1e-5  # Adam's first step has length lr only where the gradient is above its epsilon
        assert bool(clear.any())
        assert torch.allclose(found[clear], 1 - 1e-3 * slope.sign()[clear], atol=2e-6)
    head = "cls.predictions.transform.dense.weight" if family == "bert" else "lm_head.dense.weight"
    assert not torch.equal(search.model.get_parameter(head), before[head]), "the head trains along"


def test_the_penalty_of_both_kinds_is_added_once():
    """R(c) outweighs any slope of the loss, so every coefficient moves down by one full Adam step (eq. 5, 7)."""
    changes = FREE | {"penalty_heads": 5.0, "penalty_neurons": 7.0}
    method = ORTicket(adversary=Adversary(steps=3), batch_size=4, learning_rate=1e-3, **changes)
    search = search_of(method, model_of("bert"), 4)
    search.run(Session())
    assert torch.allclose(search.trajectory.heads, torch.full((1, 2, 2), 1 - 1e-3), atol=1e-6)
    assert torch.allclose(search.trajectory.neurons, torch.full((1, 2, 24), 1 - 1e-3), atol=1e-6)


def test_a_search_left_and_taken_up_hides_the_same_tokens_and_ends_with_the_same_bits():
    method = ORTicket(adversary=Adversary(steps=2), batch_size=4, learning_rate=1e-3, mini_epoch=0.25)
    whole = search_of(method, model_of("bert"), 32, seed=3)
    first = Session()
    whole.run(first)
    resumed = search_of(method, model_of("bert"), 32, seed=3)
    second = Session(stored=first.kept[4])
    resumed.run(second)
    assert second.steps == [5, 6, 7, 8]
    assert torch.equal(resumed.trajectory.heads, whole.trajectory.heads)
    assert torch.equal(resumed.trajectory.neurons, whole.trajectory.neurons)
    assert second.records == first.records


def test_every_setting_of_the_masked_search_changes_what_is_found():
    base = {"adversary": {"steps": 2, "step_size": 0.5}, "batch_size": 4, "learning_rate": 1e-3, "mini_epoch": 1.0}
    found = [
        search_of(ORTicket.model_validate(base | changes), model_of("bert"), 16, seed=3)
        for changes in ({}, {"perturb_masked": False}, {"adversary": {"kind": "none"}}, {"adversary": {"steps": 2}})
    ]
    for search in found:
        search.run(Session())
    trajectories = [tuple(search.trajectory.neurons.flatten().tolist()) for search in found]
    assert len(set(trajectories)) == len(found)


def test_on_labelled_rows_the_search_is_that_of_earlyrobust():
    changes = {"learning_rate": 1e-3, "gamma": 0.3, "drawing": {"heads": 0.25}}
    ours = ORTicket.model_validate({"search_on": "task", "block": 64, "mask_probability": 0.5} | changes)
    assert ours.search_inputs() == EarlyRobust.model_validate(changes).search_inputs()
    masked = ORTicket.model_validate(changes).search_inputs()
    assert {"block", "mask_probability", "perturb_masked"} < set(masked)
    assert not {"corpus", "rows", "head", "search_on", "drawing", "gamma", "patience"} & set(masked)
