"""Every ablation is a setting that changes what is found or trained, and nothing else."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests.flow.conftest import ignore
from tune_tickets.engine.store import Store
from tune_tickets.methods.earlyrobust import EarlyRobust
from tune_tickets.methods.finetune import FineTune
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.random import RandomTicket
from tune_tickets.methods.robustt import RobustT
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.tickets.unstructured import UnstructuredMask

FINETUNING = {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3}
ROBUSTT = {"epochs": 1.0, "batch_size": 32, "adversary": {"kind": "none"}, "finetuning": FINETUNING}
EARLY = {"learning_rate": 1e-3, "batch_size": 16, "mini_epoch": 0.25, "adversary": {"kind": "none"}}


def robustt(**changes) -> RobustT:
    return RobustT.model_validate(ROBUSTT | changes)


def early(**changes) -> EarlyRobust:
    return EarlyRobust.model_validate(EARLY | changes)


def drawn_mask(store_url: str, digest: str) -> StructuredMask | UnstructuredMask:
    store = Store(store_url)
    found = store.find("draw", digest)
    kind = StructuredMask if found.record["structured"] else UnstructuredMask
    return kind.from_bytes(store.read(found, "mask.safetensors"))


def trained(pipeline, store_url: str) -> tuple[Ticket, dict[str, float], StructuredMask | UnstructuredMask | None]:
    """What find_ticket trains: the ticket, its sparsity record and the mask; without the attack that follows."""
    pipeline.world = replace(pipeline.world, threats={})
    outcome = pipeline.find_ticket(ignore)
    store = Store(store_url)
    result = store.find("retrain", outcome.retrain_digest)
    mask = None if outcome.draw_digest is None else drawn_mask(store_url, outcome.draw_digest)
    ticket = Ticket.from_bytes(store.read(result, "ticket.safetensors"), "x")
    return ticket, result.record["sparsity"], mask


def pretrained(folder) -> dict[str, torch.Tensor]:
    return {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}


def test_nine_sparsities_cost_one_mask_training(pipeline_of):
    pipelines = [pipeline_of(robustt(sparsity=tenths / 10)) for tenths in range(1, 10)]
    tickets = [pipeline.draw(ignore) for pipeline in pipelines]
    asked = [stage for pipeline in pipelines for stage in pipeline.stages]
    computed = [stage.name for stage in asked if not stage.cached]
    assert len(asked) == 27
    assert [computed.count(name) for name in ("retrain", "masks", "draw")] == [1, 1, 9]
    assert len({ticket.content for ticket in tickets}) == 9


def test_magnitude_takes_the_place_of_mask_training(pipeline_of, store_url):
    pipeline = pipeline_of(robustt(scores="magnitude", sparsity=0.3))
    pipeline.draw(ignore)
    finetuned, scored, drawn = pipeline.stages
    store = Store(store_url)
    weights = Ticket.from_bytes(store.read(store.find("retrain", finetuned.digest), "ticket.safetensors"), "x").weights
    mask = drawn_mask(store_url, drawn.digest)
    magnitude = torch.cat([weights[name].abs().flatten() for name in mask.kept])
    kept = torch.cat([mask.kept[name].flatten() for name in mask.kept])
    assert mask.weights_cut() == 4608
    assert magnitude[~kept].max() <= magnitude[kept].min()
    other = pipeline_of(robustt(scores="magnitude", sparsity=0.3, penalty=0.9, epochs=7.0))
    assert other.draw(ignore).content == mask.digest()
    assert other.stages[1].digest == scored.digest, "settings of a mask training that is not done make no difference"
    learnt = pipeline_of(robustt(sparsity=0.3))
    assert learnt.draw(ignore).content != mask.digest()
    assert learnt.stages[0].digest == finetuned.digest


def test_magnitude_of_a_head_or_neuron_is_the_norm_of_its_columns(pipeline_of, store_url):
    pipeline = pipeline_of(robustt(scores="magnitude", sparsity=0.25, grouping="structured"))
    pipeline.draw(ignore)
    store = Store(store_url)
    finetuned = store.find("retrain", pipeline.stages[0].digest)
    weights = Ticket.from_bytes(store.read(finetuned, "ticket.safetensors"), "x").weights
    heads, neurons = [], []
    for layer in (0, 1):
        attention = weights[f"bert.encoder.layer.{layer}.attention.output.dense.weight"].double()
        output = weights[f"bert.encoder.layer.{layer}.output.dense.weight"].double()
        heads += [(attention[:, 8 * head : 8 * head + 8] ** 2).sum() for head in range(4)]
        neurons += [(output[:, neuron] ** 2).sum() for neuron in range(48)]
    mask = drawn_mask(store_url, pipeline.stages[-1].digest)
    assert not mask.neurons.flatten()[torch.stack(neurons).argsort()[:24]].any()
    assert mask.neurons.sum() == 72
    # Both of the smallest heads are in layers that keep other heads.
    assert not mask.heads.flatten()[torch.stack(heads).argsort()[:2]].any()
    assert mask.heads.sum() == 6


@pytest.mark.parametrize("heads_scope", ["global", "layer"])
@pytest.mark.parametrize("neurons_scope", ["global", "layer"])
def test_each_kind_is_drawn_over_the_model_or_within_each_layer(pipeline_of, store_url, heads_scope, neurons_scope):
    drawing = {"heads": 0.25, "neurons": 0.25, "heads_scope": heads_scope, "neurons_scope": neurons_scope}
    pipeline = pipeline_of(early(drawing=drawing, gamma=0.0, coefficient_learning_rate=0.05))
    pipeline.draw(ignore)
    store = Store(store_url)
    search = store.result(pipeline.method.find(pipeline))
    scores = Trajectory.from_bytes(store.read(search, "trajectory.safetensors"))
    mask = drawn_mask(store_url, pipeline.stages[-1].digest)
    for scope, kept, coefficients in (
        (heads_scope, mask.heads, scores.heads[-1].abs()),
        (neurons_scope, mask.neurons, scores.neurons[-1].abs()),
    ):
        if scope == "layer":
            assert (~kept).sum(dim=1).tolist() == [kept.shape[1] // 4] * 2
            assert all(row[~keep].max() <= row[keep].min() for row, keep in zip(coefficients, kept, strict=True))
        else:
            assert int((~kept).sum()) == kept.numel() // 4
            assert coefficients[~kept].max() <= coefficients[kept].min()


METHODS = [
    early(drawing={"heads": 0.25, "neurons": 0.3}),
    robustt(sparsity=0.5),
    Imp(epochs=1.0, batch_size=16, learning_rate=3e-3, sparsity=0.2),
    RandomTicket(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.kind)
def test_a_shuffled_mask_is_as_sparse_in_every_layer_and_lies_elsewhere(pipeline_of, store_url, method):
    found = trained(pipeline_of(method), store_url)[2]
    shuffled, again, other = (
        trained(pipeline_of(method, mask="shuffled", seed=seed), store_url)[2] for seed in (0, 0, 1)
    )
    assert len({mask.digest() for mask in (found, shuffled, other)}) == 3
    assert again.digest() == shuffled.digest()
    for mask in (shuffled, other):
        if isinstance(found, StructuredMask):
            assert (mask.heads_kept(), mask.neurons_kept()) == (found.heads_kept(), found.neurons_kept())
        else:
            assert mask.sparsities() == found.sparsities()


def test_re_initialised_weights_keep_the_structure_of_an_unstructured_ticket(pipeline_of, store_url, tiny_backbone):
    usual, sparsity, mask = trained(pipeline_of(robustt(sparsity=0.5)), store_url)
    ticket, same_sparsity, same_mask = trained(pipeline_of(robustt(sparsity=0.5), weights="reinitialised"), store_url)
    source = pretrained(tiny_backbone)
    assert same_mask.digest() == mask.digest()
    assert same_sparsity == sparsity
    for name, kept in mask.kept.items():
        assert bool(((ticket.weights[name] == 0) == ~kept).all())
        assert torch.equal(usual.weights[name][kept], source[name][kept])
        assert not (ticket.weights[name] == source[name])[kept].any()
    words = "bert.embeddings.word_embeddings.weight"
    assert not torch.equal(ticket.weights[words], source[words])
    assert ticket.weights[words].std().item() == pytest.approx(0.02, rel=0.1)


def test_re_initialised_weights_keep_the_structure_of_a_structured_ticket(pipeline_of, store_url):
    usual, sparsity, _ = trained(pipeline_of(METHODS[0]), store_url)
    first, same_sparsity, _ = trained(pipeline_of(METHODS[0], weights="reinitialised"), store_url)
    other, _, _ = trained(pipeline_of(METHODS[0], weights="reinitialised", seed=1), store_url)
    assert same_sparsity == sparsity
    for name, tensor in usual.weights.items():
        assert first.weights[name].shape == tensor.shape
        if tensor.ndim > 1:
            assert not torch.equal(first.weights[name], tensor)
            assert not torch.equal(first.weights[name], other.weights[name])


@pytest.mark.parametrize("method", METHODS[:2], ids=lambda method: method.kind)
def test_a_discarded_structure_leaves_the_whole_model_with_random_weights_outside_the_ticket(
    pipeline_of, store_url, tiny_backbone, method
):
    ticket, sparsity, mask = trained(pipeline_of(method, structure="discarded"), store_url)
    source = pretrained(tiny_backbone)
    assert (sparsity["heads"], sparsity["neurons"], sparsity["weights"]) == (0.0, 0.0, 0.0)
    assert sparsity["parameters"] == sparsity["parameters_dense"]
    if isinstance(mask, UnstructuredMask):
        outside = {name: ~kept for name, kept in mask.kept.items()}
    else:
        cut = (~mask.neurons[1]).unsqueeze(1).expand(48, 32)
        outside = {"bert.encoder.layer.1.intermediate.dense.weight": cut}
        outside["bert.encoder.layer.1.output.dense.weight"] = cut.T
    assert sum(int(gone.sum()) for gone in outside.values()) > 0
    for name, gone in outside.items():
        assert torch.equal(ticket.weights[name][~gone], source[name][~gone])
        assert not (ticket.weights[name] == source[name])[gone].any()
        assert not (ticket.weights[name] == 0)[gone].any(), "nothing is cut or held at zero"
    everywhere = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(ticket.weights[everywhere], source[everywhere])


def test_weights_outside_the_ticket_are_trained_like_all_others(pipeline_of, store_url, tiny_backbone):
    still = trained(pipeline_of(METHODS[1], structure="discarded"), store_url)
    pipeline = pipeline_of(METHODS[1], structure="discarded")
    moving = pipeline.settings.retraining.model_copy(update={"learning_rate": 1e-3})
    pipeline.settings = pipeline.settings.model_copy(update={"retraining": moving})
    moved = trained(pipeline, store_url)
    for name, kept in still[2].kept.items():
        assert bool((moved[0].weights[name] != still[0].weights[name])[~kept].all())


def test_a_model_without_a_mask_can_lose_its_initialisation_but_has_no_mask_to_shuffle(pipeline_of, store_url):
    usual, shuffled, blank = (
        trained(pipeline_of(FineTune(), **ablation), store_url)
        for ablation in ({}, {"mask": "shuffled"}, {"weights": "reinitialised"})
    )
    name = "bert.pooler.dense.weight"
    assert torch.equal(usual[0].weights[name], shuffled[0].weights[name])
    assert not torch.equal(usual[0].weights[name], blank[0].weights[name])


def test_controls_and_fine_tuning_are_not_ablated_and_an_unused_seed_shares_stages(pipeline_of):
    plain = pipeline_of(robustt())
    blank = pipeline_of(robustt(), weights="reinitialised", structure="discarded")
    for pipeline in (plain, blank):
        pipeline.world = replace(pipeline.world, threats={})
    assert plain.dense_control(ignore).retrain_digest == blank.dense_control(ignore).retrain_digest
    assert plain.draw(ignore) == blank.draw(ignore)
    ticket = plain.draw(ignore)
    shuffled = pipeline_of(robustt(), mask="shuffled", seed=4)
    digests = {pipeline.retrain(ticket, ablation=pipeline.settings.ablation).digest for pipeline in (plain, shuffled)}
    assert digests == {plain.retrain(ticket).digest}
    assert blank.retrain(ticket, ablation=blank.settings.ablation).digest not in digests


def test_the_random_control_of_an_ablated_ticket_is_ablated_too(pipeline_of, store_url):
    pipeline = pipeline_of(METHODS[1], structure="discarded")
    _, _, mask = trained(pipeline, store_url)
    like = pipeline.draw(ignore)
    control = pipeline.random_control(like, 0, ignore)
    assert control.mask != mask.digest()
    assert control.sparsity.weights == 0.0
