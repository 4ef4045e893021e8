"""Debiasing losses compared with values by hand, and their use with batches and adversaries."""

import pytest
import torch

from tests.models.tiny import tiny_batch, tiny_model
from tune_tickets.config.training import Adversary, Debiasing
from tune_tickets.training.adversary import adversary_of
from tune_tickets.training.batches import Batches, EncodedRows, in_order, model_inputs
from tune_tickets.training.losses import BIAS, TEACHER, TaskLoss, bias_degree, cross_entropy, logits_of, scaled

MAIN = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], dtype=torch.float64)
BIASED = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], dtype=torch.float64)
LABELS = torch.tensor([1, 0])
BATCH = {"labels": LABELS, BIAS: BIASED.log()}
# Any constant per row leaves the probabilities of the main model as they are.
LOGITS = MAIN.log() + torch.tensor([[2.0], [-1.0]])


def loss_of(logits: torch.Tensor, batch: dict[str, torch.Tensor], **settings: object) -> float:
    return TaskLoss(Debiasing.model_validate(settings)).of_logits(logits, batch).item()


def test_cross_entropy_by_hand():
    # -(ln 0.3 + ln 0.2) / 2
    assert loss_of(LOGITS, BATCH) == pytest.approx((1.2039728 + 1.6094379) / 2)


def test_product_of_experts_by_hand():
    # Row 1: 0.3 x 0.25 of 0.3 + 0.075 + 0.025, so 0.1875. Row 2: 0.2 x 0.1 of 0.02 + 0.05 + 0.24, so 2 / 31.
    assert loss_of(LOGITS, BATCH, loss="poe") == pytest.approx((1.6739764 + 2.7408400) / 2)


def test_example_reweighting_by_hand():
    # β is 0.25 and 0.1: 0.75 x 1.2039728 + 0.9 x 1.6094379 over two rows, or over weights of 1.65.
    assert loss_of(LOGITS, BATCH, loss="reweight") == pytest.approx(2.3514737 / 2)
    assert loss_of(LOGITS, BATCH, loss="reweight", normalise=True) == pytest.approx(2.3514737 / 1.65)


def test_confidence_regularisation_by_hand():
    main = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    # β is 1/2, 1 and 0: roots 0.8 and 0.6 of the teacher's 0.64 and 0.36, nothing left of it, and all of it.
    bias = torch.tensor([[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64).log()
    teacher = torch.tensor([[0.64, 0.36], [0.99, 0.01], [0.75, 0.25]], dtype=torch.float64).log()
    labels = torch.tensor([0, 1, 0])
    targets = scaled(teacher, bias_degree(bias, labels))
    assert targets.tolist() == [pytest.approx([4 / 7, 3 / 7]), pytest.approx([0.5, 0.5]), pytest.approx([0.75, 0.25])]
    by_hand = (4 / 7 * 0.1053605 + 3 / 7 * 2.3025851) + (1.6094379 + 0.2231436) / 2 + 0.6931472
    batch = {"labels": labels, BIAS: bias, TEACHER: teacher}
    assert loss_of(main.log(), batch, loss="confidence") == pytest.approx(by_hand / 3)


def test_with_a_bias_model_that_knows_nothing_every_loss_is_cross_entropy_again():
    flat = {"labels": LABELS, BIAS: torch.full((2, 3), 1 / 3, dtype=torch.float64).log()}
    plain = loss_of(LOGITS, flat)
    assert loss_of(LOGITS, flat, loss="poe") == pytest.approx(plain)
    assert loss_of(LOGITS, flat, loss="reweight") == pytest.approx(plain * 2 / 3)
    assert loss_of(LOGITS, flat, loss="reweight", normalise=True) == pytest.approx(plain)


def test_a_batch_without_unbiased_rows_has_a_finite_normalised_loss():
    certain = {"labels": torch.tensor([0, 0]), BIAS: torch.tensor([[0.0, -200.0], [0.0, -200.0]])}
    assert loss_of(torch.zeros(2, 2), certain, loss="reweight", normalise=True) == 0.0


def encoded(rows: int = 10) -> EncodedRows:
    return EncodedRows(
        input_ids=torch.arange(rows).unsqueeze(1).repeat(1, 3).int(),
        token_type_ids=None,
        lengths=torch.full((rows,), 3),
        labels=torch.arange(rows) % 2,
    )


def test_columns_stay_with_their_rows_through_shuffled_and_ordered_batches():
    rows = encoded().with_columns({BIAS: torch.arange(20.0).view(10, 2)}).with_columns({TEACHER: torch.arange(10.0)})
    batches = Batches(rows, 4, seed=3)
    for batch in (*(batches[step] for step in range(6)), *in_order(rows, 4)):
        assert batch[BIAS][:, 0].tolist() == [2.0 * number for number in batch["input_ids"][:, 0]]
        assert batch[TEACHER].tolist() == batch["input_ids"][:, 0].tolist()
        assert set(model_inputs(batch)) == {"input_ids", "attention_mask"}
    assert set(encoded().batch(torch.tensor([0]), torch.device("cpu"))) == {"input_ids", "attention_mask", "labels"}


@pytest.mark.parametrize("kind", ["none", "freelb", "pgd"])
def test_adversaries_train_under_the_loss_they_are_given(kind):
    """PoE on a model equals cross entropy on that model with the bias log-probabilities added to its output."""
    batch = tiny_batch("bert")
    bias = torch.randn(6, 2, generator=torch.Generator().manual_seed(1)).double().log_softmax(dim=-1)
    adversary = Adversary(kind=kind, steps=2, step_size=0.1)

    def gradients(loss, batch):
        model = tiny_model("bert").double()
        value = adversary_of(adversary).backward(model, batch, loss, torch.Generator().manual_seed(5))
        return value, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    def by_hand(model, batch):
        shares = logits_of(model, batch).softmax(dim=-1) * bias.exp()
        return -(shares / shares.sum(dim=-1, keepdim=True))[torch.arange(6), batch["labels"]].log().mean()

    value, found = gradients(TaskLoss(Debiasing(loss="poe")), {**batch, BIAS: bias})
    expected_value, expected = gradients(by_hand, batch)
    assert value.item() == pytest.approx(expected_value.item())
    assert torch.allclose(found, expected, atol=1e-12)
    assert not torch.allclose(found, gradients(cross_entropy, batch)[1], atol=1e-4)


@pytest.mark.parametrize("loss", ["poe", "reweight", "confidence"])
def test_a_step_runs_on_the_meta_device(loss):
    rows = encoded().with_columns({BIAS: torch.zeros(10, 2), TEACHER: torch.zeros(10, 2)})
    # SDPA's mask is prepared by looking at its values, which meta tensors do not have.
    model = tiny_model("bert", "eager").to("meta")
    batch = Batches(rows, 4, seed=0, device="meta")[0]
    adversary = Adversary(kind="freelb", steps=2)
    value = adversary_of(adversary).backward(model, batch, TaskLoss(Debiasing(loss=loss)), torch.Generator())
    assert value.device.type == "meta"
