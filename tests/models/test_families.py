"""Every model type that is accepted, the registry, and pooling in one place."""

import sys

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, DistilBertConfig, GPT2Config

from tests.models.test_loading import made_ticket
from tests.models.tiny import (
    FAMILIES,
    HEADS,
    LAYERS,
    NEURONS,
    WIDTH,
    gates_for,
    layer_parts,
    save_checkpoint,
    tiny_batch,
    tiny_config,
    tiny_model,
    without_labels,
)
from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError, ResourceError, TicketsError
from tune_tickets.models.backbone import inspect_backbone, load_backbone
from tune_tickets.models.families import KEY, Bert, Roberta, family_of, find_family
from tune_tickets.models.families.base import Anatomy, Projection
from tune_tickets.models.lean import first_token_only, lean_logits
from tune_tickets.models.loading import config_document, open_ticket
from tune_tickets.models.surgery import prune, regrow
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket

SLICEABLE = [
    *("bert", "electra", "ernie", "layoutlm", "mra", "rembert", "roc_bert", "tapas", "yoso"),
    *("roberta", "camembert", "data2vec-text", "luke", "markuplm", "xlm-roberta", "xmod"),
]
UNCUT = ["big_bird", "nystromformer", "layoutlmv3", "lilt", "longformer"]


def tiny_of(kind: str):
    sizes = tiny_config("bert").to_dict() | {"pad_token_id": 1, "embedding_size": WIDTH, "type_vocab_size": 2}
    config = AutoConfig.for_model(kind, **{key: value for key, value in sizes.items() if key != "model_type"})
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    if kind == "xmod":
        model.set_default_language("en_XX")
    return model


def test_the_lists_name_every_type_that_is_accepted():
    assert {*SLICEABLE, *UNCUT} == {*Bert.model_types, *Roberta.model_types}


@pytest.mark.parametrize("kind", SLICEABLE)
def test_a_sliced_model_of_every_type_equals_the_gated_one(kind):
    model = tiny_of(kind)
    ids = torch.randint(5, 300, (4, 9), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    mask = StructuredMask.full(LAYERS, HEADS, NEURONS)
    mask.heads[0, 1], mask.heads[1, :3], mask.neurons[0, ::2], mask.neurons[1, 5:] = False, False, False, False
    with torch.no_grad():
        dense = model(**batch).logits
        gates, attachment = gates_for(model)
        gates.heads.data, gates.neurons.data = mask.heads.float(), mask.neurons.float()
        with attachment:
            gated = model(**batch).logits
        prune(model, mask)
        assert (model(**batch).logits - gated).abs().max() < 1e-5
    assert (gated - dense).abs().max() > 1e-2


@pytest.mark.parametrize("kind", UNCUT)
def test_other_accepted_types_have_matrices_to_mask_but_no_heads_to_cut(kind):
    model = tiny_of(kind)
    matrices, parameters = family_of(model).weight_matrices(model), dict(model.named_parameters())
    assert len(matrices) >= 6 * LAYERS
    assert all(parameters[name] is linear.weight for name, linear in matrices.items())
    mask = StructuredMask.full(LAYERS, HEADS, NEURONS)
    prune(model, mask)  # as every ticket of single weights is loaded
    mask.heads[0, 1] = False
    with pytest.raises(TicketsError, match=f"type '{kind}' cannot be cut"):
        prune(model, mask)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_of_both_families_are_found(family):
    model = tiny_model(family)
    found = family_of(model)
    assert found.anatomy(model) == Anatomy(LAYERS, HEADS, NEURONS, WIDTH // HEADS)
    parts = layer_parts(model)[1]
    linears = [projection.linear for projection in found.projections(found.layers(model)[1])]
    expected = [parts.query, parts.key, parts.value, parts.attention_output, parts.intermediate, parts.output]
    assert all(one is other for one, other in zip(linears, expected, strict=True))
    assert found.word_embeddings(model) is model.get_input_embeddings()
    places = [found.place(name) for name in found.weight_matrices(model)][:12]
    for layer in range(LAYERS):
        heads = [(layer, "heads", 0, 1)] * 3 + [(layer, "heads", 1, 1)]
        assert places[6 * layer : 6 * layer + 6] == [*heads, *[(layer, "neurons", 0, 1)] * 2]
    assert found.place("classifier.weight") is None


def test_a_checkpoint_must_have_the_encoder_but_neither_pooler_nor_classifier():
    model = tiny_model()
    new = {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}
    assert family_of(model).encoder_weights(model) == set(model.state_dict()) - new


def test_a_fused_and_a_gated_projection_are_cut_in_every_block():
    """ModernBERT's: query, key and value in one, and the rows j and j + N of a gated feed-forward part."""
    heads, neurons = torch.tensor([True, False]), torch.tensor([False, True, True])
    wqkv, wi, wo = (nn.Linear(4, 12), nn.Linear(4, 6, bias=False), nn.Linear(3, 4))
    weights = [linear.weight.detach().clone() for linear in (wqkv, wi, wo)]
    bias = wqkv.bias.detach().clone()
    Projection(wqkv, "heads", 0, blocks=3).keep(heads, head_size=2)
    Projection(wi, "neurons", 0, blocks=2).keep(neurons, head_size=2)
    Projection(wo, "neurons", 1).keep(neurons, head_size=2)
    assert torch.equal(wqkv.weight, weights[0][[0, 1, 4, 5, 8, 9]])
    assert torch.equal(wqkv.bias, bias[[0, 1, 4, 5, 8, 9]])
    assert torch.equal(wi.weight, weights[1][[1, 2, 4, 5]])
    assert torch.equal(wo.weight, weights[2][:, [1, 2]])
    assert (wqkv.out_features, wi.out_features, wo.in_features) == (6, 4, 2)


@pytest.mark.parametrize("config", [DistilBertConfig, GPT2Config])
def test_an_unknown_type_is_refused_with_the_class_to_write(config):
    assert find_family(config()) is None
    with pytest.raises(
        ResourceError, match=rf"{config.model_type}.*supported: bert.*families\.base\.Family.*model\.fam"
    ):
        family_of(config())


@pytest.mark.parametrize(("family", "room"), [("bert", 40), ("roberta", 38)])
def test_texts_longer_than_the_positions_are_refused(family, room, tmp_path):
    save_checkpoint(family, tmp_path)
    inspect_backbone(Model(source=str(tmp_path)), room)
    with pytest.raises(ConfigError, match=rf"task\.max_length is {room + 1}.*positions for {room}"):
        inspect_backbone(Model(source=str(tmp_path)), room + 1)
    ids = torch.full((1, room), 7)
    assert torch.isfinite(tiny_model(family)(input_ids=ids, attention_mask=torch.ones_like(ids)).logits).all()


class MeanBert(Bert):
    """BERT with another pooling: nothing else is written."""

    def pooling(self, config):
        return lambda states, mask: (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


class Mean(MeanBert, Roberta):
    """The same for RoBERTa."""


NAMES = {"bert": f"{__name__}:MeanBert", "roberta": f"{__name__}:Mean"}


@pytest.mark.parametrize("family", FAMILIES)
def test_pooling_is_overridden_in_one_place(family, tmp_path):
    save_checkpoint(family, tmp_path)
    source = Model(source=str(tmp_path), family=NAMES[family])
    model, _ = load_backbone(source, ("neg", "pos"), seed=0)
    plain, _ = load_backbone(Model(source=str(tmp_path)), ("neg", "pos"), seed=0)
    batch = without_labels(tiny_batch(family))
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        states = plain.base_model(**batch).last_hidden_state
        mean = torch.stack([row[seen].mean(dim=0) for row, seen in zip(states, real, strict=True)]).unsqueeze(1)
        expected = plain.classifier(plain.base_model.pooler(mean) if family == "bert" else mean)
        assert (model(**batch).logits - expected).abs().max() < 1e-5
        assert (model(**batch).logits - plain(**batch).logits).abs().max() > 1e-2
        assert (lean_logits(model)(batch) - expected).abs().max() < 1e-5
        with first_token_only(model):
            assert (model(**batch).logits - expected).abs().max() < 1e-5


def test_tickets_and_exports_pool_as_their_family_does(tmp_path):
    _, _, _, ticket = made_ticket("bert", tmp_path)
    story = vars(ticket.metadata) | {"config": ticket.metadata.config | {KEY: NAMES["bert"]}}
    ticket = Ticket(ticket.weights, ticket.mask, ticket.tokenizer_files, type(ticket.metadata)(**story))
    model, batch = open_ticket(ticket, "here").model, without_labels(tiny_batch())
    assert config_document(model)[KEY] == NAMES["bert"]
    with torch.no_grad():
        whole = model(**batch, output_hidden_states=True)
        mask = batch["attention_mask"].unsqueeze(-1)
        mean = ((whole.hidden_states[-1] * mask).sum(1) / mask.sum(1)).unsqueeze(1)
        assert (whole.logits - model.classifier(model.base_model.pooler(mean))).abs().max() < 1e-5
        assert (regrow(model, ticket.mask)(**batch).logits - whole.logits).abs().max() < 1e-5


def test_a_named_family_must_exist_and_serve_the_model(tmp_path):
    save_checkpoint("roberta", tmp_path)
    for name, message in (
        ("nowhere.at_all:Class", "cannot import nowhere"),
        ("tests.models.test_families:WIDTH", "is not a class that derives from"),
        (NAMES["bert"], "serves models of type bert.*is of type 'roberta'"),
    ):
        with pytest.raises(ResourceError, match=message):
            load_backbone(Model(source=str(tmp_path), family=name), ("neg", "pos"), seed=0)


def test_an_entry_point_offers_a_family_by_model_type(tmp_path, monkeypatch):
    (tmp_path / "offered.py").write_text(
        "from tune_tickets.models.families.bert import Bert\nclass Other(Bert):\n    model_types = ('other',)\n"
    )
    info = tmp_path / "offered-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tune_tickets.families]\nother = offered:Other\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(family_of({"model_type": "other"})).__name__ == "Other"
    sys.modules.pop("offered")


def test_the_default_family_leaves_digests_as_they_were():
    written = {"source": "bundled", "layers": None, "attention": "sdpa", "revision": None}
    assert Model().model_dump(mode="json") == Model().model_dump() == written
    assert Model(family="a.b:C").model_dump()["family"] == "a.b:C"
    assert Model.model_validate(Model(family="a.b:C").model_dump()).family == "a.b:C"
