import torch
from transformers import AutoModelForSequenceClassification, BertConfig

from tests.models.tiny import tiny_model
from tune_tickets.models.families import family_of


def test_a_12_layer_bert_has_73_masked_matrices_of_the_published_size():
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(BertConfig())
    found = family_of(model).weight_matrices(model)
    assert len(found) == 73
    assert next(iter(found)) == "bert.encoder.layer.0.attention.self.query.weight"
    assert list(found)[-1] == "bert.pooler.dense.weight"
    # 12 layers of 4 x 768 x 768 + 2 x 768 x 3072, and the pooler.
    assert sum(linear.weight.numel() for linear in found.values()) == 12 * 12 * 768**2 + 768**2


def test_no_bias_embedding_layer_norm_or_classifier_is_masked():
    for family in ("bert", "roberta"):
        model = tiny_model(family)
        found = family_of(model).weight_matrices(model)
        parameters = dict(model.named_parameters())
        assert all(parameters[name] is linear.weight for name, linear in found.items())
        assert not [
            name for name in found if any(part in name for part in ("bias", "embed", "LayerNorm", "classifier"))
        ]


def test_roberta_has_no_pooler_and_its_new_head_is_left_alone():
    assert len(family_of(model := tiny_model("bert")).weight_matrices(model)) == 13
    assert len(family_of(model := tiny_model("roberta")).weight_matrices(model)) == 12


def test_output_projections_come_by_layer():
    model = tiny_model()
    heads, neurons = family_of(model).output_projections(model)
    assert list(heads) == [f"bert.encoder.layer.{layer}.attention.output.dense.weight" for layer in (0, 1)]
    assert list(neurons) == [f"bert.encoder.layer.{layer}.output.dense.weight" for layer in (0, 1)]


def test_srnets_prune_84_million_weights_of_the_layers_and_the_classifier_of_bert_base():
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(BertConfig(num_labels=3))
    found = family_of(model).matrices_with_classifier(model, pooler=False)
    assert (len(found), list(found)[-1]) == (73, "classifier.weight")
    assert sum(linear.weight.numel() for linear in found.values()) == 84_934_656 + 3 * 768
    assert list(family_of(model).matrices_with_classifier(model, pooler=True))[-2:] == [
        "bert.pooler.dense.weight",
        "classifier.weight",
    ]


def test_the_dense_layer_of_robertas_head_takes_the_place_of_the_pooler():
    model = tiny_model("roberta")
    found = list(family_of(model).matrices_with_classifier(model, pooler=True))
    assert found[-2:] == ["classifier.dense.weight", "classifier.out_proj.weight"]
    assert len(family_of(model).matrices_with_classifier(model, pooler=False)) == 13
