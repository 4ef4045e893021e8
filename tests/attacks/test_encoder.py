import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tune_tickets.attacks import encoder as encoder_module
from tune_tickets.attacks.encoder import SentenceEncoder, load_encoder
from tune_tickets.models.bundled import bundled_encoder_path


class Counting:
    """Wraps a model and counts the rows it is given."""

    def __init__(self, model):
        self.model, self.rows, self.device = model, 0, model.device

    def train(self, mode):
        self.model.train(mode)
        return self

    def __call__(self, **encoded):
        self.rows += len(encoded["input_ids"])
        return self.model(**encoded)


@pytest.fixture(scope="module")
def parts():
    path = bundled_encoder_path()
    return AutoModel.from_pretrained(path), AutoTokenizer.from_pretrained(path)


def test_an_embedding_is_the_normalised_mean_over_tokens_whatever_the_batch(parts):
    model, tokenizer = parts
    texts = ["a film", "a very long film about a dog and a cat", ""]
    embedded = SentenceEncoder(model, tokenizer).embed(texts)
    for text, vector in zip(texts, embedded, strict=True):
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = hidden.double().mean(dim=0)
        torch.testing.assert_close(vector.double(), mean / mean.norm(), atol=1e-5, rtol=0)


def test_no_text_is_encoded_twice(parts):
    counting = Counting(parts[0])
    encoder = SentenceEncoder(counting, parts[1])
    first = encoder.embed(["a", "b", "a"])
    again = encoder.embed(["b", "c", "a"])
    assert counting.rows == 3
    assert torch.equal(first[0], first[2])
    assert torch.equal(first[1], again[0])


def test_the_texts_used_last_are_remembered(parts, monkeypatch):
    monkeypatch.setattr(encoder_module, "_REMEMBERED", 2)
    counting = Counting(parts[0])
    encoder = SentenceEncoder(counting, parts[1])
    encoder.embed(["a", "b"])
    encoder.embed(["a"])
    encoder.embed(["c"])  # b is forgotten, a is not
    encoder.embed(["a"])
    assert counting.rows == 3
    encoder.embed(["b"])
    assert counting.rows == 4


def test_similarity_is_the_cosine_and_one_for_the_same_text():
    same, other = load_encoder(torch.device("cpu")).similarities(
        [("a dull film", "a dull film"), ("a dull film", "stock markets fell")]
    )
    assert same == pytest.approx(1.0, abs=1e-5)
    assert other < 0.5
