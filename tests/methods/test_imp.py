"""Iterative magnitude pruning: where a round starts, what it does not change, and what k rounds cut."""

import copy

import pytest
import torch

from tests.models.tiny import FAMILIES, tiny_batch, tiny_model
from tests.training.sessions import Session, checkpoint_of
from tune_tickets.config.training import Adversary
from tune_tickets.errors import StoreError
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.imp.rounds import Round
from tune_tickets.tickets.drawing import draw_unstructured
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.losses import cross_entropy

COUNT = 2 * (4 * 32 * 32 + 2 * 32 * 24) + 32 * 32
"""Weights of the 13 masked matrices of the tiny BERT: 12,288."""


def rows(family: str = "bert") -> EncodedRows:
    batch = tiny_batch(family, rows=20)
    return EncodedRows(
        batch["input_ids"].int(), batch.get("token_type_ids"), batch["attention_mask"].sum(dim=1), batch["labels"]
    )


def a_round(family="bert", device="cpu", mask=None, model=None, loss=cross_entropy, **settings) -> Round:
    method = Imp(**{"epochs": 2.0, "batch_size": 8, "learning_rate": 1e-2, **settings})
    # SDPA's mask is prepared by looking at its values, which meta tensors do not have.
    model = model or tiny_model(family, "eager" if device == "meta" else "sdpa", 0.2).to(device)
    return Round(method, model, rows(family), 5, device, mask, loss)


def run(this: Round, session: Session | None = None) -> Round:
    this.run(session or Session())
    return this


def some_mask(model, sparsity: float) -> UnstructuredMask:
    return draw_unstructured(a_round(model=model).scores(), sparsity)


@pytest.mark.parametrize(
    ("sparsity", "step", "expected"),
    [
        (0.3, 0.1, (0.1, 0.2, 0.3)),
        (0.9, 0.1, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
        (0.25, 0.1, (0.1, 0.2, 0.25)),
        (0.05, 0.1, (0.05,)),
        (0.5, 0.2, (0.2, 0.4, 0.5)),
        (0.7, 1.0, (0.7,)),
        (0.5, 1 / 6, (0.166666666667, 0.333333333333, 0.5)),
    ],
)
def test_the_schedule_passes_through_multiples_of_the_step_and_ends_at_the_sparsity(sparsity, step, expected):
    assert Imp(sparsity=sparsity, step=step).schedule() == expected


def test_k_rounds_cut_what_the_schedule_says_and_nothing_comes_back():
    mask, left = None, None
    # 10%, 20%, 30% and 35% of 12,288, rounded up.
    for sparsity, expected in zip(Imp(sparsity=0.35).schedule(), (1229, 2458, 3687, 4301), strict=True):
        trained = run(a_round(mask=mask))
        scores = trained.scores()
        mask = draw_unstructured(scores, sparsity, within=mask)
        assert mask.weights_cut() == expected
        kept = torch.cat([mask.kept[name].flatten() for name in sorted(scores)])
        magnitude = torch.cat([scores[name].flatten() for name in sorted(scores)])
        left = torch.ones(COUNT, dtype=torch.bool) if left is None else left
        assert not (kept & ~left).any(), "a pruned weight came back"
        # Of those that were left, the smallest went.
        assert magnitude[left & ~kept].max() <= magnitude[kept].min()
        left = kept


@pytest.mark.parametrize("family", FAMILIES)
def test_a_round_starts_from_the_given_weights_bit_for_bit_with_zeros_where_it_was_cut(family):
    model = tiny_model(family)
    before = copy.deepcopy(model.state_dict())
    mask = some_mask(tiny_model(family), 0.4)
    started = a_round(family, model=model, mask=mask).model.state_dict()
    assert started.keys() == before.keys()
    for name in before:
        kept = mask.kept.get(name, torch.ones_like(before[name], dtype=torch.bool))
        assert torch.equal(started[name][kept], before[name][kept])
        assert bool((started[name][~kept] == 0).all())


def test_cut_weights_stay_zero_and_have_no_momentum_while_all_others_train():
    mask = some_mask(tiny_model(), 0.4)
    this = a_round(mask=mask, weight_decay=0.5)
    before = copy.deepcopy(this.model.state_dict())
    run(this)
    parameters = dict(this.model.named_parameters())
    for name, kept in mask.kept.items():
        assert bool((parameters[name][~kept] == 0).all())
        assert bool((this.optimizer.state[parameters[name]]["exp_avg"][~kept] == 0).all())
        assert bool((parameters[name] != before[name])[kept].all())
    assert not torch.equal(parameters["bert.pooler.dense.bias"], before["bert.pooler.dense.bias"])


@pytest.mark.parametrize("sparsity", [None, 0.4])
def test_left_after_an_epoch_and_taken_up_again_it_ends_with_the_same_bits(sparsity):
    mask = None if sparsity is None else some_mask(tiny_model(), sparsity)
    settings = {"mask": mask, "epochs": 3.0, "adversary": Adversary(kind="freelb", steps=2, step_size=0.1)}
    first = Session()
    straight = run(a_round(**settings), first)
    for number in (0, 1):
        session = Session(stored=first.kept[3 * number + 3])
        resumed = run(a_round(**settings), session)
        assert session.steps == list(range(3 * number + 4, 10))
        assert resumed.history == straight.history
        assert all(torch.equal(score, resumed.scores()[name]) for name, score in straight.scores().items())


def test_a_checkpoint_of_another_model_is_refused():
    with pytest.raises(StoreError, match="belongs to another model"):
        a_round("roberta").restore(checkpoint_of(a_round("bert")))


def test_every_epoch_has_a_record_with_its_mean_loss_and_the_share_cut():
    ends = []
    losses = []

    def noted(model, batch):
        loss = cross_entropy(model, batch)
        losses.append(loss.item())
        return loss

    this = a_round(mask=some_mask(tiny_model(), 0.4), loss=noted)
    run(this, Session(on_record=lambda record: ends.append(this.step)))
    assert ends == [3, 6]
    assert [record["step"] for record in this.history] == [1, 2]
    assert [record["loss"] for record in this.history] == pytest.approx([sum(losses[:3]) / 3, sum(losses[3:]) / 3])
    # 40% of 12,288 is 4915.2, so 4,916 are cut.
    assert this.history[0]["weights_cut"] == pytest.approx(100 * 4916 / 12288)


def test_the_loss_can_be_another():
    def backwards(model, batch):
        return -cross_entropy(model, batch)

    usual, other = run(a_round(epochs=4.0)), run(a_round(epochs=4.0, loss=backwards))
    assert usual.history[-1]["loss"] < usual.history[0]["loss"]
    assert other.history[-1]["loss"] < other.history[0]["loss"] < 0


def test_the_adversary_changes_what_is_learnt():
    plain, adversarial = (
        run(a_round(adversary=Adversary(kind=kind, steps=2, step_size=0.5))).scores() for kind in ("none", "freelb")
    )
    assert not any(torch.equal(plain[name], adversarial[name]) for name in plain)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["none", "freelb"])
def test_one_step_runs_on_the_meta_device(family, kind):
    mask = some_mask(tiny_model("bert"), 0.3) if family == "bert" else None
    this = a_round(family, "meta", mask=mask, adversary=Adversary(kind=kind, steps=2))
    with this.attached():
        step, loss = next(this.steps())
    assert (step, loss.device.type) == (1, "meta")
