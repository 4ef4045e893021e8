"""Word vectors from an encoder's input embeddings."""

import pytest
import torch

from tests.models.tiny import FAMILIES, save_checkpoint, tiny_tokenizer
from tune_tickets.config.task import Model
from tune_tickets.models.backbone import input_embeddings
from tune_tickets.models.families import family_of


@pytest.mark.parametrize("family", FAMILIES)
def test_a_word_is_the_mean_of_its_pieces(family, tmp_path):
    network = save_checkpoint(family, tmp_path)
    table = family_of(network).word_embeddings(network).weight
    vocabulary = tiny_tokenizer(family, tmp_path).get_vocab()
    # RoBERTa's vocabulary has letters, and a piece for the space.
    pieces = ["film", "##s"] if family == "bert" else ["Ġ", "f", "i", "l", "m", "s"]
    expected = torch.stack([table[vocabulary[piece]] for piece in pieces]).mean(dim=0)
    found = input_embeddings(Model(source=str(tmp_path)), ["films", "film"])
    assert torch.allclose(found["films"], expected, atol=1e-6)
    assert not torch.allclose(found["film"], expected, atol=1e-3)


def test_words_outside_the_vocabulary_have_no_vector(tmp_path):
    save_checkpoint("bert", tmp_path)
    assert set(input_embeddings(Model(source=str(tmp_path)), ["good", "zebra", "goods"])) == {"good", "goods"}
