"""`model.pooling`: what the mean is, what `auto` means, and that gates, surgery, attacks and tickets follow it."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch

from tests.models.test_families import SLICEABLE, tiny_of
from tests.models.test_loading import TEXTS, made_ticket
from tests.models.tiny import FAMILIES, KERNELS, gates_for, save_checkpoint, tiny_batch, without_labels
from tune_tickets.config.loading import load_experiment
from tune_tickets.config.task import Model
from tune_tickets.engine.stage import StageKey
from tune_tickets.errors import ConfigError
from tune_tickets.methods.base import Flow, World, masked_lm_stage
from tune_tickets.models.backbone import empty_network, load_backbone
from tune_tickets.models.families import family_of
from tune_tickets.models.families.base import POOLING
from tune_tickets.models.lean import first_token_only, lean_logits
from tune_tickets.models.loading import config_document, given_mask, load_ticket, open_ticket
from tune_tickets.models.source import resolved_pooling
from tune_tickets.models.surgery import count_parameters, prune, regrow
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket, save_ticket

LABELS = ("neg", "pos")


def mean_model(family, folder, pooling="mean", **settings):
    save_checkpoint(family, folder)
    return load_backbone(Model(source=str(folder), pooling=pooling, **settings), LABELS, seed=0)[0]


def by_hand(family, model, states, mask):
    """The logits from the states of the last layer, in numpy and float64, without torch modules."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items() if "classifier" in name}
    states, found = states.double().numpy(), []
    for row, seen in zip(states, mask.numpy(), strict=True):
        vector = sum(state for state, real in zip(row, seen, strict=True) if real) / seen.sum()
        if family == "roberta":
            vector = np.tanh(weights["classifier.dense.weight"] @ vector + weights["classifier.dense.bias"])
            found.append(weights["classifier.out_proj.weight"] @ vector + weights["classifier.out_proj.bias"])
        else:
            found.append(weights["classifier.weight"] @ vector + weights["classifier.bias"])
    return torch.from_numpy(np.stack(found))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_classifier_reads_the_mean_over_the_attention_mask(family, kernel, tmp_path):
    model = mean_model(family, tmp_path, attention=kernel).double()
    batch = without_labels(tiny_batch(family))
    with torch.no_grad():
        whole = model(**batch, output_hidden_states=True)
        expected = by_hand(family, model, whole.hidden_states[-1], batch["attention_mask"])
        assert (whole.logits - expected).abs().max() < 1e-12
        # Without a mask every token counts.
        ids = batch["input_ids"][:1]
        alone = model(input_ids=ids, output_hidden_states=True)
        expected = by_hand(family, model, alone.hidden_states[-1], torch.ones_like(ids))
        assert (alone.logits - expected).abs().max() < 1e-12
        first = mean_model(family, tmp_path, "first").double()
        assert (first(**batch).logits - whole.logits).abs().max() > 1e-2


def test_dropout_is_applied_to_the_mean(tmp_path):
    model = mean_model("bert", tmp_path).double()
    model.dropout.p = 0.5
    model.train()
    seen = []
    model.classifier.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    model.dropout.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    model(**without_labels(tiny_batch()))
    mean, dropped = seen
    kept = dropped != 0
    assert 0.2 < kept.double().mean() < 0.8
    assert torch.equal(dropped[kept], 2 * mean[kept])


@pytest.mark.parametrize("kind", SLICEABLE)
def test_every_type_pools_before_its_classifier(kind):
    model = tiny_of(kind)
    ids = torch.randint(5, 300, (4, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 5:], ids[1, 5:] = 0, 1
    model.config.update({POOLING: "mean"})
    family_of(model).attach_pooling(model)
    with torch.no_grad():
        whole = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        mean = torch.stack([row[seen.bool()].mean(0) for row, seen in zip(whole.hidden_states[-1], mask, strict=True)])
        expected = model.classifier(mean.unsqueeze(1)).reshape(whole.logits.shape)
        assert (whole.logits - expected).abs().max() < 1e-5


def test_a_mean_pooled_model_has_no_pooler_to_count_or_to_mask(tmp_path):
    mean, first = mean_model("bert", tmp_path), mean_model("bert", tmp_path, "first")
    lost = set(first.state_dict()) - set(mean.state_dict())
    assert lost == {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert count_parameters(first).total - count_parameters(mean).total == 32 * 32 + 32
    assert all(torch.equal(first.state_dict()[name], value) for name, value in mean.state_dict().items())
    family = family_of(mean)
    assert set(family.weight_matrices(first)) - set(family.weight_matrices(mean)) == {"bert.pooler.dense.weight"}
    assert list(family.matrices_with_classifier(mean, pooler=True))[-1] == "classifier.weight"
    assert len(family.matrices_with_classifier(mean, pooler=True)) == 13
    empty, _ = empty_network(Model(source=str(tmp_path), pooling="mean"))
    assert set(empty.state_dict()) == set(mean.state_dict())


@pytest.mark.parametrize("family", FAMILIES)
def test_gated_and_sliced_models_agree_and_the_short_pass_too(family, tmp_path):
    model, batch = mean_model(family, tmp_path).double(), without_labels(tiny_batch(family))
    mask = StructuredMask.full(2, 4, 24)
    mask.heads[0, 1], mask.heads[1, :3], mask.neurons[0, ::2], mask.neurons[1, 5:] = False, False, False, False
    with torch.no_grad():
        dense = model(**batch).logits
        assert (lean_logits(model)(batch) - dense).abs().max() < 1e-12
        gates, attachment = gates_for(model)
        gates.heads.data, gates.neurons.data = mask.heads.double(), mask.neurons.double()
        with attachment:
            gated = model(**batch).logits
            assert lean_logits(model) is None
            with first_token_only(model):
                assert torch.equal(model(**batch).logits, gated)
        prune(model, mask)
        sliced = model(**batch).logits
        assert (sliced - gated).abs().max() < 1e-12
        assert (lean_logits(model)(batch) - sliced).abs().max() < 1e-12
        for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(same(**batch).logits, sliced)
        assert (regrow(model.float(), mask)(**batch).logits - sliced).abs().max() < 1e-5
    assert (gated - dense).abs().max() > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_ticket_keeps_its_pooling(family, tmp_path):
    model, _, gated, ticket = made_ticket(family, tmp_path, pooling="mean")
    assert ticket.metadata.config[POOLING] == "mean"
    save_ticket(ticket, tmp_path / "mine.safetensors")
    loaded, batch = load_ticket(tmp_path / "mine.safetensors"), without_labels(tiny_batch(family))
    with torch.no_grad():
        assert (loaded.model(**batch).logits - gated).abs().max() < 1e-5
        assert torch.equal(loaded.model(**batch).logits, model(**batch).logits)
    # Batches have padding, single texts have none.
    one_by_one = [loaded.predict([text])[0] for text in TEXTS]
    for (label, probability), (expected, other) in zip(loaded.predict(TEXTS), one_by_one, strict=True):
        assert label == expected
        assert abs(probability - other) < 1e-5
    assert count_parameters(loaded.model) == count_parameters(model)


def test_tickets_without_an_entry_read_the_first_token(tmp_path):
    *_, mean = made_ticket("roberta", tmp_path / "mean", pooling="mean")
    model, _, gated, first = made_ticket("roberta", tmp_path / "first")
    assert POOLING not in first.metadata.config == config_document(model)
    batch = without_labels(tiny_batch("roberta"))
    assert set(first.weights) == set(mean.weights)
    with torch.no_grad():
        assert (open_ticket(first, "here").model(**batch).logits - gated).abs().max() < 1e-5
        assert (open_ticket(mean, "here").model(**batch).logits - gated).abs().max() > 1e-2


def test_a_mask_of_single_weights_must_cover_the_pooler_of_the_experiment(tmp_path):
    _, _, _, ticket = made_ticket("bert", tmp_path, pooling="mean")
    source = Model(source=str(tmp_path / "backbone"), pooling="mean")
    weights = dict(load_backbone(source, LABELS, seed=0)[0].state_dict())
    weights["bert.encoder.layer.0.output.dense.weight"][:, :3] = 0
    path = tmp_path / "sparse.safetensors"
    save_ticket(Ticket(weights, StructuredMask.full(2, 4, 24), ticket.tokenizer_files, ticket.metadata), path)
    found = given_mask(str(path), source)
    assert (~found.kept["bert.encoder.layer.0.output.dense.weight"]).sum() == 3 * 32
    with pytest.raises(ConfigError, match=r"has no bert\.pooler\.dense\.weight.*set model\.pooling: mean"):
        given_mask(str(path), Model(source=str(tmp_path / "backbone")))


def test_auto_is_what_the_encoder_was_made_for(tmp_path):
    assert resolved_pooling(Model()) == "mean"
    assert resolved_pooling(Model(pooling="first")) == "first"
    save_checkpoint("bert", tmp_path)
    source = Model(source=str(tmp_path))
    assert resolved_pooling(source) == "first"
    assert resolved_pooling(Model(source=str(tmp_path), pooling="mean")) == "mean"
    pooling = tmp_path / "1_Pooling" / "config.json"
    pooling.parent.mkdir()
    modes = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    for change, expected in (
        ({}, "mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "first"),
        ({"pooling_mode_cls_token": True}, "first"),  # both, one after the other
    ):
        pooling.write_text(json.dumps(modes | change))
        assert resolved_pooling(source) == expected
        model, _ = load_backbone(source, LABELS, seed=0)
        assert getattr(model.config, POOLING, "first") == expected
    pooling.write_text("{")
    assert resolved_pooling(source) == "first"


@pytest.mark.parametrize("family", FAMILIES)
def test_first_is_the_model_of_transformers_itself(family, tmp_path):
    """Bit for bit, and nothing is added to its configuration."""
    plain = save_checkpoint(family, tmp_path)
    model, batch = mean_model(family, tmp_path, "first"), without_labels(tiny_batch(family))
    plain.classifier.load_state_dict(model.classifier.state_dict())
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, plain(**batch).logits)
    assert POOLING not in model.config.to_dict()
    assert not model.base_model._forward_hooks


OLD = {"source": "bundled", "layers": None, "attention": "sdpa", "revision": None}
RETRAIN = "b91dbdd50ddada5ab0b8f54be2357642ba80098e52768b7981d3d48fcb88c990"
"""Digest of the stage below before `model.pooling` existed."""
MASKED_LM = "97fa0a4cf726a545410d4d8758c3be81095a5b4d45bbe810a1e91e5ca787e93e"


def stages(tmp_path, pooling=None, world="mean"):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nmethod: {kind: imp, sparsity: 0.5}\n")
    settings = load_experiment(str(file), [] if pooling is None else [f"model.pooling={pooling}"]).settings
    key = StageKey("data", "stub", "stub")
    flow = Flow(settings, World(key, "stub", {}, (), pooling=world), None)
    masked_lm = masked_lm_stage(0, settings.model, "stub", settings.evaluation.masked_lm, key)
    return flow.retrain(None), masked_lm


def test_pooling_is_part_of_digests_only_where_the_mean_is_read(tmp_path):
    for pooling, world in (("first", "mean"), (None, "first"), ("auto", "first")):
        retrain, masked_lm = stages(tmp_path, pooling, world)
        assert retrain.model == OLD
        assert retrain.backbone == Model(pooling="first")
        assert (retrain.digest, masked_lm.digest) == (RETRAIN, MASKED_LM)
    found = {stages(tmp_path, pooling)[0].digest for pooling in ("mean", "auto", None)}
    assert len(found) == 1
    assert RETRAIN not in found
    mean, masked_lm = stages(tmp_path)
    assert mean.backbone == Model(pooling="mean")
    assert masked_lm.digest == MASKED_LM, "a masked language model has no pooling"


def test_the_settings_are_written_as_they_were_given():
    assert Model().model_dump() == OLD
    for pooling in ("first", "mean"):
        assert Model(pooling=pooling).model_dump() == {**OLD, "pooling": pooling}
        assert Model.model_validate(Model(pooling=pooling).model_dump()).pooling == pooling
