import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig

from tests.models.tiny import (
    FAMILIES,
    HEADS,
    KERNELS,
    LAYERS,
    NEURONS,
    gates_for,
    layer_parts,
    tiny_batch,
    tiny_model,
    without_labels,
)
from tune_tickets.config.task import Model
from tune_tickets.errors import TicketsError
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.surgery import count_parameters, prune
from tune_tickets.tickets.drawing import draw, random_scores
from tune_tickets.tickets.mask import StructuredMask


def uneven_mask() -> StructuredMask:
    heads = torch.tensor([[True, False, True, True], [False, False, False, True]])
    neurons = torch.rand(LAYERS, NEURONS, generator=torch.Generator().manual_seed(3)) > 0.4
    return StructuredMask(heads, neurons)


def gated_logits(model, mask, batch):
    gates, attachment = gates_for(model)
    gates.heads.data, gates.neurons.data = mask.heads.float(), mask.neurons.float()
    with attachment, torch.no_grad():
        return model(**without_labels(batch)).logits


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("training", [False, True])
def test_a_pruned_model_equals_the_model_gated_with_zeros_and_ones(family, kernel, training):
    model, batch, mask = tiny_model(family, kernel).train(training), tiny_batch(family), uneven_mask()
    dense = model(**without_labels(batch)).logits
    gated = gated_logits(model, mask, batch)
    prune(model, mask)
    pruned = model(**without_labels(batch)).logits
    assert (pruned - gated).abs().max() < 1e-5
    assert (pruned - dense).abs().max() > 1e-2
    pruned.sum().backward()
    assert all(parameter.grad is not None for part in layer_parts(model) for parameter in part.query.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_kept_weights_get_the_gradients_they_would_get_behind_gates(family):
    mask, batch = uneven_mask(), tiny_batch(family)
    gated, pruned = tiny_model(family), tiny_model(family)
    gates, attachment = gates_for(gated)
    gates.heads.data, gates.neurons.data = mask.heads.float(), mask.neurons.float()
    with attachment:
        gated(**without_labels(batch)).logits.square().sum().backward()
    prune(pruned, mask)
    pruned(**without_labels(batch)).logits.square().sum().backward()
    kept = mask.neurons[1]
    full, cut = layer_parts(gated)[1], layer_parts(pruned)[1]
    torch.testing.assert_close(cut.intermediate.weight.grad, full.intermediate.weight.grad[kept], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(cut.output.weight.grad, full.output.weight.grad[:, kept], rtol=1e-4, atol=1e-5)


def test_layers_report_their_own_number_of_heads():
    model = tiny_model()
    prune(model, uneven_mask())
    heads = [part.attention.num_attention_heads for part in layer_parts(model)]
    assert heads == [3, 1]
    assert [part.query.out_features for part in layer_parts(model)] == [24, 8]
    assert [tuple(part.attention_output.weight.shape) for part in layer_parts(model)] == [(32, 24), (32, 8)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_without_neurons_still_runs_and_trains(family, kernel):
    mask = StructuredMask(torch.ones(LAYERS, HEADS, dtype=torch.bool), torch.zeros(LAYERS, NEURONS, dtype=torch.bool))
    model, batch = tiny_model(family, kernel), tiny_batch(family)
    gated = gated_logits(model, mask, batch)
    prune(model, mask)
    logits = model(**without_labels(batch)).logits
    assert (logits - gated).abs().max() < 1e-5
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    logits.sum().backward()
    optimizer.step()
    assert (model(**without_labels(batch)).logits - logits).abs().max() > 1e-3


@pytest.mark.parametrize(("neurons", "millions"), [(0.4, 58), (0.3, 63), (0.2, 69)])
def test_bert_base_has_the_parameters_the_paper_reports(neurons, millions):
    # EarlyRobust Table 1: 58M on IMDB, 63M on SST-2, 69M on AG News, of 85M; heads 1/6 everywhere.
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(BertConfig())
    assert count_parameters(model).without_embeddings // 10**6 == 85
    assert count_parameters(model).total // 10**6 == 109
    prune(model, draw(*random_scores(12, 12, 3072, seed=0), heads=1 / 6, neurons=neurons))
    assert count_parameters(model).without_embeddings // 10**6 == millions


def test_a_mask_of_another_backbone_is_refused():
    with pytest.raises(TicketsError, match="another backbone"):
        prune(tiny_model(), StructuredMask.full(LAYERS + 1, HEADS, NEURONS))


def test_pruning_twice_is_refused():
    model = tiny_model()
    prune(model, uneven_mask())
    with pytest.raises(TicketsError, match="pruned already"):
        prune(model, uneven_mask())


def test_a_layer_must_keep_a_head():
    heads = torch.tensor([[True] * HEADS, [False] * HEADS])
    with pytest.raises(TicketsError, match="without heads"):
        prune(tiny_model(), StructuredMask(heads, torch.ones(LAYERS, NEURONS, dtype=torch.bool)))


def test_the_bundled_encoder_pruned_equals_the_gated_one():
    model, tokenizer = load_backbone(Model(layers=2), ("neg", "pos"), seed=0)
    batch = tokenizer(["a fine film", "dull, and far too long for what it is"], padding=True, return_tensors="pt")
    mask = draw(*random_scores(2, 12, 1536, seed=1), heads=1 / 4, neurons=0.4)
    gated = gated_logits(model, mask, batch)
    prune(model, mask)
    with torch.no_grad():
        assert (model(**batch).logits - gated).abs().max() < 1e-5
