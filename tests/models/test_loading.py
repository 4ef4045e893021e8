import pytest
import torch

import tune_tickets
from tests.models.tiny import FAMILIES, KERNELS, gates_for, save_checkpoint, tiny_batch, without_labels
from tune_tickets.config.task import Model
from tune_tickets.errors import DataError, ResourceError, StoreError
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.loading import config_document, load_ticket, open_ticket
from tune_tickets.models.surgery import prune
from tune_tickets.models.tokenizer import tokenizer_files
from tune_tickets.tickets.drawing import draw, random_scores
from tune_tickets.tickets.ticket import Ticket, TicketMetadata, save_ticket

TEXTS = ["the film was good", "a bad plot with bad films", "fine", "dull dull dull dull dull dull dull dull dull dull"]


def made_ticket(family, tmp_path, kernel="sdpa", columns=("text",), neurons=0.3, pooling="first"):
    """A pruned model, the logits its gated twin gives, and its ticket."""
    save_checkpoint(family, tmp_path / "backbone")
    source = Model(source=str(tmp_path / "backbone"), attention=kernel, pooling=pooling)
    model, tokenizer = load_backbone(source, ("neg", "pos"), seed=0)
    mask = draw(*random_scores(2, 4, 24, seed=4), heads=1 / 4, neurons=neurons)
    gates, attachment = gates_for(model)
    gates.heads.data, gates.neurons.data = mask.heads.float(), mask.neurons.float()
    with attachment, torch.no_grad():
        gated = model(**without_labels(tiny_batch(family))).logits
    prune(model, mask)
    metadata = TicketMetadata(
        backbone="tiny",
        backbone_fingerprint="0" * 64,
        config=config_document(model),
        labels=("neg", "pos"),
        text_columns=columns,
        max_length=8,
        method="earlyrobust",
        params={"method.gamma": 0.1},
        metrics={"clean": 81.5},
    )
    return model, tokenizer, gated, Ticket(model.state_dict(), mask, tokenizer_files(tokenizer), metadata)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_ticket_gives_the_same_logits_after_saving_and_loading(family, kernel, tmp_path):
    model, _, gated, ticket = made_ticket(family, tmp_path, kernel)
    save_ticket(ticket, tmp_path / "out" / "a.ticket")
    loaded = load_ticket(tmp_path / "out" / "a.ticket")
    batch = without_labels(tiny_batch(family))
    with torch.no_grad():
        assert (loaded.model(**batch).logits - model(**batch).logits).abs().max() < 1e-5
        assert (loaded.model(**batch).logits - gated).abs().max() < 1e-5
    assert not loaded.model.training
    assert loaded.mask.digest() == ticket.mask.digest()
    assert loaded.metadata == ticket.metadata
    assert loaded.labels == ("neg", "pos")


def test_the_file_alone_is_enough(tmp_path):
    _, tokenizer, _, ticket = made_ticket("bert", tmp_path)
    save_ticket(ticket, tmp_path / "a.ticket")
    for file in (tmp_path / "backbone").iterdir():
        file.unlink()
    loaded = tune_tickets.load_ticket(str(tmp_path / "a.ticket"))
    assert loaded.tokenizer(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    assert str(tmp_path).encode() not in (tmp_path / "a.ticket").read_bytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_are_the_models_own_whatever_the_batch(family, tmp_path):
    model, tokenizer, _, ticket = made_ticket(family, tmp_path)
    loaded = open_ticket(ticket, "here")
    expected = []
    for text in TEXTS:
        inputs = tokenizer(text, truncation=True, max_length=8, return_tensors="pt")
        with torch.no_grad():
            probability, index = model(**inputs).logits[0].double().softmax(dim=0).max(dim=0)
        expected.append((("neg", "pos")[index], probability.item()))
    for batch_size in (1, 3, 32):
        found = loaded.predict(TEXTS, batch_size)
        assert [label for label, _ in found] == [label for label, _ in expected]
        assert [share for _, share in found] == pytest.approx([share for _, share in expected], abs=1e-5)
    assert loaded.predict([]) == []


def test_pairs_are_read_as_pairs(tmp_path):
    model, tokenizer, _, ticket = made_ticket("bert", tmp_path, columns=("premise", "hypothesis"))
    loaded = open_ticket(ticket, "here")
    inputs = tokenizer("good film", "bad plot", return_tensors="pt")
    assert inputs["token_type_ids"].sum() > 0
    with torch.no_grad():
        expected = model(**inputs).logits[0].softmax(dim=0).max().item()
    assert loaded.predict([("good film", "bad plot")])[0][1] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(DataError, match="has 1 parts, this ticket reads 2"):
        loaded.predict(["good film"])


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ("a good film", r"takes a list of texts: write predict\(\['a good film'\]\)"),
        (["good", None], "text 1 is None, which is no text"),
        ([float("nan")], "text 0 is nan, which is no text"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(tmp_path, texts, said):
    *_, ticket = made_ticket("bert", tmp_path)
    with pytest.raises(DataError, match=said):
        open_ticket(ticket, "here").predict(texts)


def test_a_ticket_without_neurons_in_any_layer_can_be_saved(tmp_path):
    model, _, _, ticket = made_ticket("bert", tmp_path, neurons=0.9999)
    assert ticket.mask.neurons_kept() == (0, 0)
    loaded = open_ticket(Ticket.from_bytes(ticket.to_bytes(), "here"), "here")
    batch = without_labels(tiny_batch())
    with torch.no_grad():
        assert torch.equal(loaded.model(**batch).logits, model(**batch).logits)


def test_loading_does_not_touch_the_callers_random_numbers(tmp_path):
    *_, ticket = made_ticket("bert", tmp_path)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    open_ticket(ticket, "here")
    assert torch.equal(torch.rand(1), expected)


def test_weights_of_another_model_are_refused(tmp_path):
    *_, ticket = made_ticket("bert", tmp_path)
    fewer = {name: tensor for name, tensor in ticket.weights.items() if "pooler" not in name}
    with pytest.raises(StoreError, match=r"my\.ticket: weights and configuration do not fit together"):
        open_ticket(Ticket(fewer, ticket.mask, ticket.tokenizer_files, ticket.metadata), "my.ticket")


def test_a_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(ResourceError, match=r"none\.ticket.*check the path"):
        load_ticket(tmp_path / "none.ticket")
