"""The shortened forward pass gives the same answers as the model's own."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, CamembertConfig, XLMRobertaConfig

from tests.models.tiny import FAMILIES, HEADS, KERNELS, LAYERS, NEURONS, WIDTH, tiny_batch, tiny_model, without_labels
from tune_tickets.models.lean import lean_logits, lean_states
from tune_tickets.models.surgery import prune
from tune_tickets.tickets.mask import StructuredMask


def assert_same(model, batch, atol=1e-12):
    batch = without_labels(batch)
    with torch.no_grad():
        whole = model(**batch, output_hidden_states=True)
        torch.testing.assert_close(lean_logits(model)(batch), whole.logits, rtol=0, atol=atol)
        own = lean_states(model.base_model)(batch)
        real = batch["attention_mask"].bool()  # values at padded positions do not matter
        torch.testing.assert_close(own[real], whole.hidden_states[-1][real], rtol=0, atol=atol)


def alike(batch):
    """Texts of one length that differ in a token, like the candidates of an attack."""
    batch = {name: tensor[:1].repeat(6, 1) if tensor.ndim > 1 else tensor for name, tensor in batch.items()}
    for row in range(1, 6):
        batch["input_ids"][row, row] = 20 + row
    return batch


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_states_are_those_of_the_model(family, kernel):
    model = tiny_model(family, kernel).double()
    assert_same(model, tiny_batch(family))
    assert_same(model, alike(tiny_batch(family)))


def test_a_token_that_stands_elsewhere_or_in_the_other_text_of_a_pair_is_another_one():
    model, batch = tiny_model().double(), alike(tiny_batch())
    batch["input_ids"][:] = 7
    batch["token_type_ids"][3:, 2] = 1
    assert_same(model, batch)


def test_padding_within_a_text_shifts_the_positions_of_roberta():
    model, batch = tiny_model("roberta").double(), alike(tiny_batch("roberta"))
    batch["input_ids"][2, 1] = 1
    assert_same(model, batch)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("config", [BertConfig, CamembertConfig, XLMRobertaConfig], ids=lambda kind: kind.model_type)
def test_any_number_of_layers_and_kin(config, layers):
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": layers, "num_attention_heads": HEADS, "vocab_size": 300}
    model = AutoModelForSequenceClassification.from_config(config(**sizes, intermediate_size=NEURONS)).double().eval()
    batch = {name: tensor for name, tensor in tiny_batch("roberta").items() if name != "token_type_ids"}
    assert_same(model, batch)


def test_a_pruned_model_with_a_layer_without_neurons():
    model = tiny_model().double()
    heads, neurons = torch.ones(LAYERS, HEADS, dtype=torch.bool), torch.ones(LAYERS, NEURONS, dtype=torch.bool)
    heads[0, 1:], heads[1, 2:], neurons[0, :], neurons[1, ::2] = False, False, False, False
    prune(model, StructuredMask(heads, neurons))
    assert_same(model, tiny_batch())


def test_equal_tokens_are_projected_once_and_the_last_layer_sees_the_first(monkeypatch):
    model, batch, seen = tiny_model().double(), without_labels(alike(tiny_batch())), []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda x, *rest: seen.append(x.shape[:-1].numel()) or linear(x, *rest)
    )
    with torch.no_grad():
        lean_logits(model)(batch)
    tokens = batch["input_ids"].numel()
    kinds = batch["input_ids"].shape[1] + 5
    first = [kinds, tokens, tokens, tokens]  # queries, keys and values; the way out; the two of the feed-forward part
    last = [tokens, 6, 6, 6, 6]  # keys and values; the query of each text; as above
    assert seen == [*first, *last, 6, 6]  # pooler and classifier


def test_a_model_with_something_of_its_own_is_left_alone():
    gated = tiny_model()
    gated.base_model.encoder.layer[0].output.dense.register_forward_pre_hook(lambda module, states: states)
    assert lean_logits(gated) is None
    masked = tiny_model()
    torch.nn.utils.parametrize.register_parametrization(masked.classifier, "weight", torch.nn.Identity())
    assert lean_logits(masked) is None
    relative = BertConfig(hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=HEADS, vocab_size=300)
    relative.position_embedding_type = "relative_key"
    assert lean_logits(AutoModelForSequenceClassification.from_config(relative)) is None
    assert lean_logits(tiny_model().base_model) is None
    assert lean_states(tiny_model("roberta").to("meta")) is None
