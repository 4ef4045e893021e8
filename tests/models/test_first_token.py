import pytest
import torch
from transformers import AutoModelForSequenceClassification, DistilBertConfig, ElectraConfig, XLMRobertaConfig

from tests.models.tiny import FAMILIES, HEADS, KERNELS, LAYERS, NEURONS, WIDTH, tiny_batch, tiny_model
from tune_tickets.models.lean import first_token_only
from tune_tickets.models.surgery import prune
from tune_tickets.tickets.mask import StructuredMask


def logits(model, batch):
    with torch.no_grad():
        return model(**batch).logits


def widths(model):
    """Positions that the feed-forward part of every layer sees."""
    seen = []
    for layer in model.base_model.encoder.layer:
        layer.intermediate.register_forward_pre_hook(lambda _, states: seen.append(states[0].shape[1]))
    return seen


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_logits_are_those_of_the_whole_layer(family, kernel):
    model, batch = tiny_model(family, kernel).double(), tiny_batch(family)
    whole = logits(model, batch)
    seen = widths(model)
    with first_token_only(model):
        torch.testing.assert_close(logits(model, batch), whole, rtol=0, atol=1e-12)
    assert seen == [batch["input_ids"].shape[1]] * (LAYERS - 1) + [1]
    assert torch.equal(logits(model, batch), whole)  # nothing stays behind


def test_a_pruned_model_answers_as_before():
    model, batch = tiny_model().double(), tiny_batch()
    heads, neurons = torch.ones(LAYERS, HEADS, dtype=torch.bool), torch.ones(LAYERS, NEURONS, dtype=torch.bool)
    heads[-1, 1:], neurons[-1, ::2] = False, False
    prune(model, StructuredMask(heads, neurons))
    whole = logits(model, batch)
    with first_token_only(model):
        torch.testing.assert_close(logits(model, batch), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "config",
    [
        ElectraConfig(embedding_size=16, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS),
        XLMRobertaConfig(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, vocab_size=300),
        DistilBertConfig(dim=WIDTH, n_layers=2, n_heads=HEADS, vocab_size=300),  # other module names: not changed
    ],
    ids=lambda config: config.model_type,
)
def test_other_families_answer_as_before(config):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).double().eval()
    batch = {name: tensor for name, tensor in tiny_batch("roberta").items() if name != "token_type_ids"}
    batch.pop("labels", None)
    whole = logits(model, batch)
    with first_token_only(model):
        torch.testing.assert_close(logits(model, batch), whole, rtol=0, atol=1e-12)
