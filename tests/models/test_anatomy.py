import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    XLMRobertaConfig,
)

from tests.models.tiny import FAMILIES, HEADS, LAYERS, NEURONS, WIDTH, tiny_model
from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.anatomy import Anatomy, anatomy_of, check_max_length, layer_parts, word_embeddings


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_of_both_families_are_found(family):
    model = tiny_model(family)
    assert anatomy_of(model) == Anatomy(LAYERS, HEADS, NEURONS, WIDTH // HEADS)
    names = {id(module): name for name, module in model.named_modules()}
    first, second = layer_parts(model)
    base = f"{model.base_model_prefix}.encoder.layer.1"
    assert names[id(second.query)] == f"{base}.attention.self.query"
    assert names[id(second.attention_output)] == f"{base}.attention.output.dense"
    assert names[id(second.intermediate)] == f"{base}.intermediate.dense"
    assert names[id(second.output)] == f"{base}.output.dense"
    assert first.query is not second.query
    assert word_embeddings(model) is model.get_input_embeddings()


@pytest.mark.parametrize("config", [ElectraConfig, XLMRobertaConfig])
def test_kin_of_the_two_families_work(config):
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config(num_hidden_layers=3))
    assert anatomy_of(model).layers == 3
    assert word_embeddings(model).num_embeddings == config().vocab_size


@pytest.mark.parametrize("config", [DistilBertConfig, GPT2Config])
def test_other_architectures_are_refused_with_the_families_that_work(config):
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config())
    for look in (layer_parts, anatomy_of):
        with pytest.raises(ResourceError, match=rf"{config.model_type}.*BERT, RoBERTa"):
            look(model)


@pytest.mark.parametrize(("family", "room"), [("bert", 40), ("roberta", 38)])
def test_texts_longer_than_the_positions_are_refused(family, room):
    model = tiny_model(family)
    check_max_length(model, room)
    with pytest.raises(ConfigError, match=rf"task\.max_length is {room + 1}.*positions for {room}"):
        check_max_length(model, room + 1)


@pytest.mark.parametrize(("family", "room"), [("bert", 40), ("roberta", 38)])
def test_the_longest_allowed_text_does_run(family, room):
    model = tiny_model(family)
    ids = torch.full((1, room), 7)
    assert torch.isfinite(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits).all()
