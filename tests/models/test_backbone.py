import logging

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DistilBertConfig, DistilBertForSequenceClassification

from tests.models.tiny import FAMILIES, layer_parts, save_checkpoint, tiny_batch, tiny_model, without_labels
from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.backbone import load_backbone

LABELS = ("neg", "pos")


def local(folder, **settings) -> Model:
    return Model(source=str(folder), **settings)


def drop_weights(folder, fragment: str) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({name: w for name, w in weights.items() if fragment not in name}, folder / "model.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_checkpoints_weights_arrive_unchanged(family, tmp_path):
    original = save_checkpoint(family, tmp_path)
    model, _ = load_backbone(local(tmp_path), LABELS, seed=0)
    loaded = model.base_model.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in original.base_model.state_dict().items())
    assert not model.training
    assert model.config.id2label == {0: "neg", 1: "pos"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_classifier_depends_on_the_seed_alone(family, tmp_path):
    save_checkpoint(family, tmp_path)
    states = []
    for global_seed, kernel in ((1, "sdpa"), (2, "eager")):
        torch.manual_seed(global_seed)
        states.append(load_backbone(local(tmp_path, attention=kernel), LABELS, seed=5)[0].state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    other = load_backbone(local(tmp_path), LABELS, seed=6)[0].state_dict()
    changed = {name for name in other if not torch.equal(other[name], states[0][name])}
    assert changed == {name for name in other if name.startswith("classifier") and name.endswith("weight")}


def test_new_weights_have_the_spread_the_configuration_asks_for_and_biases_are_zero(tmp_path):
    save_checkpoint("roberta", tmp_path)
    state = load_backbone(local(tmp_path), LABELS, seed=0)[0].state_dict()
    assert state["classifier.dense.weight"].std().item() == pytest.approx(0.3, rel=0.1)
    assert state["classifier.dense.bias"].abs().max() == 0


def test_a_missing_pooler_is_initialised_from_the_seed_too(tmp_path):
    save_checkpoint("bert", tmp_path)
    drop_weights(tmp_path, "pooler")
    torch.manual_seed(1)
    first = load_backbone(local(tmp_path), LABELS, seed=0)[0].state_dict()
    torch.manual_seed(2)
    second = load_backbone(local(tmp_path), LABELS, seed=0)[0].state_dict()
    assert torch.equal(first["bert.pooler.dense.weight"], second["bert.pooler.dense.weight"])
    assert first["bert.pooler.dense.weight"].std() > 0.1


def test_a_classifier_for_other_labels_is_replaced(tmp_path):
    save_checkpoint("bert", tmp_path)
    tiny_model("bert").save_pretrained(tmp_path)
    model, _ = load_backbone(local(tmp_path), ("a", "b", "c"), seed=0)
    assert model(**without_labels(tiny_batch())).logits.shape[1] == 3


def test_only_the_first_layers_are_kept(tmp_path):
    original = save_checkpoint("bert", tmp_path)
    model, _ = load_backbone(local(tmp_path, layers=1), LABELS, seed=0)
    (only,) = layer_parts(model)
    assert torch.equal(only.query.weight, layer_parts(original)[0].query.weight)
    assert model.config.num_hidden_layers == 1


def test_more_layers_than_there_are_is_an_error_of_the_yaml(tmp_path):
    save_checkpoint("bert", tmp_path)
    with pytest.raises(ConfigError, match=r"model\.layers is 3.*has 2 layers"):
        load_backbone(local(tmp_path, layers=3), LABELS, seed=0)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_the_kernel_is_the_one_asked_for(kernel, tmp_path):
    save_checkpoint("bert", tmp_path)
    model, _ = load_backbone(local(tmp_path, attention=kernel), LABELS, seed=0)
    assert model.config._attn_implementation == kernel


def test_loading_is_quiet_and_leaves_transformers_logging_as_it_was(tmp_path, capfd):
    save_checkpoint("bert", tmp_path)
    before = logging.getLogger("transformers").level
    capfd.readouterr()
    load_backbone(local(tmp_path), LABELS, seed=0)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert logging.getLogger("transformers").level == before


def test_an_encoder_with_missing_weights_is_refused(tmp_path):
    save_checkpoint("bert", tmp_path)
    drop_weights(tmp_path, "layer.1.output.dense.weight")
    with pytest.raises(ResourceError, match=r"lacks 1 weights of the encoder.*layer\.1\.output\.dense\.weight"):
        load_backbone(local(tmp_path), LABELS, seed=0)


def test_an_unsupported_architecture_is_refused(tmp_path):
    save_checkpoint("bert", tmp_path)
    DistilBertForSequenceClassification(
        DistilBertConfig(vocab_size=300, dim=32, hidden_dim=24, n_layers=1, n_heads=4)
    ).save_pretrained(tmp_path)
    with pytest.raises(ResourceError, match=r"type 'distilbert'.*families\.base\.Family"):
        load_backbone(local(tmp_path), LABELS, seed=0)


@pytest.mark.parametrize("part", ["model.safetensors", "tokenizer.json", "config.json"])
def test_damaged_files_are_named(part, tmp_path):
    save_checkpoint("bert", tmp_path)
    (tmp_path / part).write_bytes(b"{damaged")
    word = {"model.safetensors": "weights", "tokenizer.json": "tokenizer", "config.json": "(configuration|tokenizer)"}[
        part
    ]
    with pytest.raises(ResourceError, match=f"its {word} cannot be read"):
        load_backbone(local(tmp_path), LABELS, seed=0)


def test_the_bundled_encoder_loads_with_its_first_layers():
    model, tokenizer = load_backbone(Model(layers=3), LABELS, seed=0)
    assert len(layer_parts(model)) == 3
    assert tokenizer.tokenize("A good film") == ["a", "good", "film"]
