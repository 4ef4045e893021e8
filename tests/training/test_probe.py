import pytest
import torch

from tests.models.tiny import FAMILIES, tiny_batch, tiny_model, without_labels
from tune_tickets.config.training import Adversary
from tune_tickets.models.families import family_of
from tune_tickets.training import evaluation
from tune_tickets.training.adversary import ascend
from tune_tickets.training.evaluation import accuracy_under_pgd

PGD = Adversary(kind="pgd", steps=3, step_size=0.4, initial_magnitude=0.0)


def self_labelled(model, rows: int = 24) -> dict[str, torch.Tensor]:
    """Labels are the model's own answers, but for two rows."""
    batch = tiny_batch("bert", rows=rows)
    batch["labels"] = model(**without_labels(batch)).logits.argmax(dim=-1)
    batch["labels"][:2] = 1 - batch["labels"][:2]
    return batch


def expected_survivors(model, batch) -> int:
    """Row by row, with perturbed embeddings handed in as inputs."""
    survivors = 0
    for row in range(len(batch["labels"])):
        length = int(batch["attention_mask"][row].sum())
        ids, types = batch["input_ids"][row : row + 1, :length], batch["token_type_ids"][row : row + 1, :length]
        delta, right = torch.zeros(1, length, 32, dtype=torch.float64), True
        for step in range(PGD.steps + 1):
            delta.requires_grad_(True)
            embedded = family_of(model).word_embeddings(model)(ids).detach() + delta
            logits = model(inputs_embeds=embedded, token_type_ids=types).logits
            right &= bool(logits.argmax() == batch["labels"][row])
            if step < PGD.steps:
                loss = torch.nn.functional.cross_entropy(logits, batch["labels"][row : row + 1])
                (gradient,) = torch.autograd.grad(loss, delta)
                delta = delta.detach() + PGD.step_size * gradient / gradient.norm()
        survivors += right
    return survivors


def split(batch, size):
    return [
        {name: tensor[i : i + size] for name, tensor in batch.items()} for i in range(0, len(batch["labels"]), size)
    ]


def test_accuracy_is_that_of_a_row_by_row_computation_whatever_the_batch():
    model = tiny_model().double()
    batch = self_labelled(model)
    survivors = expected_survivors(model, batch)
    assert 0 < survivors < 22
    for size in (24, 7):
        found = accuracy_under_pgd(model, split(batch, size), PGD, torch.Generator().manual_seed(0))
        assert found == pytest.approx(100 * survivors / 24)


def test_a_tiny_step_leaves_the_clean_accuracy():
    model = tiny_model()
    setting = Adversary(kind="pgd", steps=1, step_size=1e-6, initial_magnitude=0.0)
    found = accuracy_under_pgd(model, [self_labelled(model)], setting, torch.Generator())
    assert found == pytest.approx(100 * 22 / 24)


def test_a_row_that_was_wrong_before_does_not_count_when_it_comes_right(monkeypatch):
    model = tiny_model()
    batch = self_labelled(model)
    strong = Adversary(kind="pgd", steps=4, step_size=1.0, initial_magnitude=0.0)
    monkeypatch.setattr(
        evaluation, "ascend", lambda delta, slope, batch, setting: ascend(delta, -slope, batch, setting)
    )
    assert accuracy_under_pgd(model, [batch], strong, torch.Generator()) == pytest.approx(100 * 22 / 24)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(family, training):
    model = tiny_model(family, dropout=0.5).train(training)
    model.classifier.requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    torch.manual_seed(0)
    first = accuracy_under_pgd(model, [tiny_batch(family)], PGD, torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    assert accuracy_under_pgd(model, [tiny_batch(family)], PGD, torch.Generator().manual_seed(0)) == first
    assert model.training == training
    for name, parameter in model.named_parameters():
        assert parameter.grad is None
        assert torch.equal(parameter, before[name])
        assert parameter.requires_grad == (name not in frozen)
