"""Trained classifiers from ticket files and folders."""

import json

import pytest
import torch

from tests.models.test_loading import TEXTS, made_ticket
from tests.models.tiny import FAMILIES, save_checkpoint, tiny_model, tiny_tokenizer
from tune_tickets.errors import DataError, ResourceError
from tune_tickets.models.classifier import load_classifier
from tune_tickets.tickets.ticket import save_ticket


@pytest.fixture(params=FAMILIES)
def folder(request, tmp_path):
    """A fine-tuned classifier as transformers saves it, and the model itself."""
    path = tmp_path / "classifier"
    path.mkdir()
    model = tiny_model(request.param)
    model.config.id2label, model.config.label2id = {0: "NEGATIVE", 1: "POSITIVE"}, {"NEGATIVE": 0, "POSITIVE": 1}
    model.save_pretrained(path)
    tokenizer = tiny_tokenizer(request.param, path)
    tokenizer.save_pretrained(path)
    return path, model, tokenizer


def test_a_ticket_file_is_read_with_its_labels_columns_and_length(tmp_path):
    *_, ticket = made_ticket("bert", tmp_path, columns=("premise", "hypothesis"))
    save_ticket(ticket, tmp_path / "a.ticket")
    loaded = load_classifier(str(tmp_path / "a.ticket"))
    assert (loaded.labels, loaded.columns, loaded.max_length) == (("neg", "pos"), ("premise", "hypothesis"), 8)
    with pytest.raises(
        DataError, match=r"a\.ticket reads a pair of texts \(premise and hypothesis\), but 1 were given"
    ):
        loaded.probabilities([("one",)])


def test_a_folder_gives_the_probabilities_of_the_model_in_it(folder):
    path, model, tokenizer = folder
    loaded = load_classifier(str(path))
    assert (loaded.labels, loaded.columns) == (("NEGATIVE", "POSITIVE"), None)
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        expected = model(**inputs).logits[0].double().softmax(dim=0)
    found = loaded.probabilities([(text,) for text in TEXTS], batch_size=3)
    assert found.shape == (4, 2)
    assert torch.allclose(found[0], expected, atol=1e-6)
    assert torch.allclose(found.sum(dim=1), torch.ones(4, dtype=torch.float64))
    assert loaded.probabilities([]).shape == (0, 2)
    assert loaded.probabilities([("good film", "bad plot")]).shape == (1, 2)


def test_no_text_is_too_long_or_too_broken(folder):
    path, *_ = folder
    loaded = load_classifier(str(path))
    # 40 positions; RoBERTa counts from 2.
    assert loaded.max_length == (40 if loaded.model.config.model_type == "bert" else 38)
    odd = ["word " * 1000, "\ud800 half", "", "\x00\x1b[31m", "这部电影 😀"]
    assert torch.isfinite(loaded.probabilities([(text,) for text in odd])).all()


def test_an_encoder_without_a_trained_classifier_is_refused(tmp_path):
    save_checkpoint("bert", tmp_path / "encoder")
    with pytest.raises(ResourceError, match=r"no trained classifier: 2 weights such as classifier\.bias"):
        load_classifier(str(tmp_path / "encoder"))


def test_what_is_neither_file_nor_folder_nor_hub_model_is_named(tmp_path):
    with pytest.raises(ResourceError, match=r"none\.ticket' is no ticket file, nor a model that can be used"):
        load_classifier(str(tmp_path / "none.ticket"))
    with pytest.raises(ResourceError, match=r"'nobody/nothing' is no ticket file, .*hub"):
        load_classifier("nobody/nothing")


def test_damaged_weights_are_an_error_that_names_the_folder(folder):
    path, *_ = folder
    (path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ResourceError, match=r"classifier: cannot be read as a text classifier"):
        load_classifier(str(path))


def test_one_label_is_no_classifier(folder):
    path, *_ = folder
    config = json.loads((path / "config.json").read_text())
    config |= {"id2label": {"0": "SCORE"}, "label2id": {"SCORE": 0}}
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ResourceError, match="classifier"):
        load_classifier(str(path))
