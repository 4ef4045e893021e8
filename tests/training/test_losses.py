import pytest
import torch

from tests.models.tiny import FAMILIES, tiny_batch, tiny_model, without_labels
from tune_tickets.training.losses import cross_entropy, logits_of


@pytest.mark.parametrize("family", FAMILIES)
def test_cross_entropy_is_the_mean_negative_log_probability(family):
    model, batch = tiny_model(family).double(), tiny_batch(family)
    logits = model(**without_labels(batch)).logits
    assert torch.equal(logits_of(model, batch), logits)
    shares = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    picked = [shares[row, label].log() for row, label in enumerate(batch["labels"])]
    assert cross_entropy(model, batch).item() == pytest.approx(-sum(picked).item() / len(picked))
