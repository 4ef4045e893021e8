"""Victims whose answers can be calculated by hand: they add up one weight per known word."""

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoTokenizer

from tune_tickets.attacks.victim import Victim
from tune_tickets.models.source import bundled_encoder_path


class WordCounter(torch.nn.Module):
    """Class 1 if the weights of the words, plus a bias, are positive, else class 0."""

    def __init__(self, vocabulary: Mapping[str, int], weights: Mapping[str, float], bias: float):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(len(vocabulary), dtype=torch.float64))
        with torch.no_grad():
            for word, value in weights.items():
                self.weight[vocabulary[word]] = value
        self.bias = bias
        self.config = SimpleNamespace(model_type="word counter")
        self.shapes: list[tuple[int, ...]] = []

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        assert not self.training
        assert torch.is_inference_mode_enabled()
        self.shapes.append(tuple(input_ids.shape))
        score = (self.weight[input_ids] * attention_mask).sum(dim=1) + self.bias
        return SimpleNamespace(logits=torch.stack([-score, score], dim=1))


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Small batches on a busy machine: threads would wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def toolkit():
    """TextAttack, imported our way: its own looks for downloads."""
    from tune_tickets.attacks.toolkit import import_textattack

    return import_textattack()


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(bundled_encoder_path(), local_files_only=True)


@pytest.fixture
def counting_victim(tokenizer):
    """Make a victim from the weights of words."""

    def make(weights: Mapping[str, float], bias: float = 0.0, max_length: int = 64, batch_size: int = 8) -> Victim:
        return Victim(WordCounter(tokenizer.get_vocab(), weights, bias), tokenizer, max_length, batch_size)

    return make
