import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tune_tickets.attacks.lockstep import Memory
from tune_tickets.attacks.neighbours import SentenceEncoder, load_encoder
from tune_tickets.models.source import bundled_encoder_path


@pytest.fixture
def memory(tmp_path):
    return Memory(tmp_path / "memory.sqlite")


class Counting(SentenceEncoder):
    """Counts the rows that its model is given."""

    rows = 0

    def _pooled(self, batch):
        self.rows += len(batch["input_ids"])
        return super()._pooled(batch)


@pytest.fixture(scope="module")
def parts():
    path = bundled_encoder_path()
    return AutoModel.from_pretrained(path), AutoTokenizer.from_pretrained(path)


def test_an_embedding_is_the_normalised_mean_over_tokens_whatever_the_batch(parts, memory):
    model, tokenizer = parts
    texts = ["a film", "a very long film about a dog and a cat", ""]
    embedded = SentenceEncoder(model, tokenizer, memory).embed(texts)
    for text, vector in zip(texts, embedded, strict=True):
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = hidden.double().mean(dim=0)
        torch.testing.assert_close(vector.double(), mean / mean.norm(), atol=1e-5, rtol=0)


def test_no_text_is_encoded_twice(parts, memory):
    encoder = Counting(*parts, memory)
    first = encoder.embed(["a", "b", "a"])
    again = encoder.embed(["b", "c", "a"])
    assert encoder.rows == 3
    assert torch.equal(first[0], first[2])
    assert torch.equal(first[1], again[0])


def test_another_encoder_of_the_machine_finds_what_one_has_computed(parts, memory, tmp_path):
    first = SentenceEncoder(*parts, memory).embed(["a", "b"])
    other = Counting(*parts, Memory(tmp_path / "memory.sqlite"))
    again = other.embed(["b", "a", "c"])
    assert other.rows == 1
    assert torch.equal(again[:2], first.flip(0))


def test_similarity_is_the_cosine_and_one_for_the_same_text():
    same, other = load_encoder(torch.device("cpu")).similarities(
        [("a dull film", "a dull film"), ("a dull film", "stock markets fell")]
    )
    assert same == pytest.approx(1.0, abs=1e-5)
    assert other < 0.5
