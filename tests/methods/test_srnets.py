"""SRNets' mask training: the sparsity schedule, what is trained, which mask is kept, and resuming."""

import copy

import pytest
import torch

from tests.models.tiny import FAMILIES, tiny_batch, tiny_model
from tests.training.sessions import Session, checkpoint_of
from tune_tickets.errors import StoreError
from tune_tickets.methods.imp.rounds import Round
from tune_tickets.methods.srnets import SRNets
from tune_tickets.methods.srnets.pruning import MaskTraining, cubic_sparsity, masked_weights, round_settings
from tune_tickets.tickets.drawing import draw_unstructured, magnitudes
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.losses import cross_entropy


def rows(family: str = "bert") -> EncodedRows:
    batch = tiny_batch(family, rows=20)
    return EncodedRows(
        batch["input_ids"].int(), batch.get("token_type_ids"), batch["attention_mask"].sum(dim=1), batch["labels"]
    )


def training(family="bert", device="cpu", look=lambda model: 50.0, loss=cross_entropy, **settings) -> MaskTraining:
    settings = {"epochs": 10 / 3, "batch_size": 8, "learning_rate": 0.01, "eval_interval": 2, **settings}
    # SDPA's mask is prepared by looking at its values, which meta tensors do not have.
    model = tiny_model(family, "eager" if device == "meta" else "sdpa", 0.2).to(device)
    return MaskTraining(SRNets(**settings), model, rows(family), 5, device, loss, look)


def run(found: MaskTraining, session: Session | None = None) -> MaskTraining:
    found.run(session or Session())
    return found


def test_the_cubic_schedule_from_70_to_90_percent_stands_at_8946_after_70_percent_of_training():
    assert cubic_sparsity(0.7, 0.7, 0.9) == pytest.approx(0.8946, abs=1e-12)
    assert cubic_sparsity(0.0, 0.7, 0.9) == pytest.approx(0.7)
    assert cubic_sparsity(0.5, 0.2, 0.9) == pytest.approx(0.9 - 0.7 / 8)
    assert cubic_sparsity(1.0, 0.2, 0.9) == 0.9


def test_thresholds_follow_the_schedule_at_every_interval_and_masks_are_kept_at_the_target():
    """10 steps, looks at 2, 4, 6, 8 and 10: only those from the 7th on may be chosen."""
    seen, cut = iter([90.0, 95.0, 99.0, 70.0, 60.0]), []
    found = training(init="soft", start_sparsity=0.7, sparsity=0.9, look=lambda model: next(seen))

    def count(record) -> None:
        matrix = found.masks.matrices[0]
        cut.append(int((matrix.real < matrix.threshold).sum()))

    matrix = found.masks.matrices[0]
    assert int((matrix.real < matrix.threshold).sum()) == 717, "70% of 1,024 at the start"
    run(found, Session(on_record=count))
    # 0.9 - 0.2 (1 - t)³ of 1,024 for t = 0.2, 0.4, 0.6, 0.8, 1, rounded up.
    assert cut == [817, 878, 909, 920, 922]
    assert [record["weights_cut"] for record in found.history] == pytest.approx([79.76, 85.68, 88.72, 89.84, 90.0])
    assert [record["clean"] for record in found.history] == [90.0, 95.0, 99.0, 70.0, 60.0]
    assert set(found.chosen.best.sparsities().values()) <= {922 / 1024, 692 / 768, 58 / 64}


def test_the_best_mask_in_distribution_after_the_share_is_kept_as_it_was_looked_at():
    values = iter([99.0, 10.0, 99.0, 80.0, 70.0])
    looked, scores = [], []

    def look(model) -> float:
        looked.append({name: matrix.fixed.bool().clone() for name, matrix in zip(names, matrices, strict=True)})
        return next(values)

    found = training(sparsity=0.5, look=look)
    names, matrices = found.masks.names, found.masks.matrices
    run(found, Session(on_record=lambda record: scores.append(found.masks.scores())))
    assert len(looked) == 5
    fourth = draw_unstructured(scores[3], 0.5, "matrix")
    assert all(torch.equal(found.chosen.best.kept[name], looked[3][name]) for name in names)
    assert all(torch.equal(found.chosen.best.kept[name], fourth.kept[name]) for name in names)
    assert not all(torch.equal(found.chosen.best.kept[name], looked[4][name]) for name in names)


def test_masks_of_looks_are_kept_as_they_were_looked_at_the_chosen_one_among_them():
    looked = []

    def look(model) -> float:
        fixed = [matrix.fixed.bool() for matrix in found.masks.matrices]
        looked.append(UnstructuredMask(dict(zip(found.masks.names, fixed, strict=True))).digest())
        return 50.0

    found = training(epochs=14.0, eval_interval=1, sparsity=0.5, look=look)
    run(found)
    kept = {number: mask.digest() for number, mask in found.chosen.looks.masks()}
    # 42 steps: every 2.1-th look, rounded up.
    assert list(kept) == [3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42]
    assert list(kept.values()) == [looked[number - 1] for number in kept]
    assert kept[42] == found.chosen.best.digest(), "of equals the last is chosen"
    assert kept[3] != kept[42]


def test_from_the_start_any_mask_may_be_chosen_and_of_equals_the_later_is():
    values = iter([80.0, 99.0, 70.0, 99.0, 90.0])
    scores = []
    found = training(sparsity=0.5, select_after=0.0, look=lambda model: next(values))
    run(found, Session(on_record=lambda record: scores.append(found.masks.scores())))
    assert found.chosen.best.digest() == draw_unstructured(scores[3], 0.5, "matrix").digest()


def test_the_last_step_is_looked_at_even_between_two_intervals():
    found = run(training(eval_interval=4))
    assert [record["step"] for record in found.history] == [1, 2, 3]
    only = run(training(eval_interval=1000))
    assert len(only.history) == 1
    assert only.chosen.best is not None


def test_the_mean_loss_of_an_interval_is_over_its_own_steps():
    losses = []

    def noted(model, batch):
        loss = cross_entropy(model, batch)
        losses.append(loss.item())
        return loss

    found = run(training(eval_interval=4, loss=noted))
    expected = [sum(losses[:4]) / 4, sum(losses[4:8]) / 4, sum(losses[8:]) / 2]
    assert [record["loss"] for record in found.history] == pytest.approx(expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooler", [False, True])
def test_everything_but_the_masks_is_frozen_and_the_classifier_is_masked_too(family, pooler):
    found = training(family, pooler=pooler)
    before = copy.deepcopy(found.model.state_dict())
    run(found)
    after = found.model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not any(parameter.requires_grad for parameter in found.model.parameters())
    head = {"bert": ("bert.pooler.dense.weight", "classifier.weight")}.get(
        family, ("classifier.dense.weight", "classifier.out_proj.weight")
    )
    assert found.masks.names[12:] == (head if pooler else head[1:])
    start = training(family, pooler=pooler).masks.scores()
    assert all(bool((score != start[name]).any()) for name, score in found.masks.scores().items())


def test_masks_train_towards_a_lower_loss():
    found = run(training(epochs=40.0, eval_interval=6, sparsity=0.3))
    assert found.history[-1]["loss"] < found.history[0]["loss"] - 0.1


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_interrupted_after_any_step_and_resumed_it_ends_with_the_same_bits(stop):
    def values():
        return iter([60.0, 70.0, 71.0, 90.0, 80.0])

    settings = {"init": "soft", "start_sparsity": 0.3, "sparsity": 0.6}
    all_values, first = values(), Session(on_step=torch.rand)
    straight = run(training(**settings, look=lambda model: next(all_values)), first)
    assert first.waited == [2, 4, 6, 8], "what was looked at is not looked at again"
    left = list(values())[stop // 2 :]
    session = Session(stored=first.kept[stop])
    resumed = run(training(**settings, look=lambda model: left.pop(0)), session)
    assert session.steps == list(range(stop + 1, 11))
    assert resumed.history == straight.history
    assert resumed.chosen.best.digest() == straight.chosen.best.digest()
    assert len(straight.chosen.looks.bits) == 5
    assert resumed.chosen.looks.to_bytes() == straight.chosen.looks.to_bytes()
    assert all(torch.equal(score, resumed.masks.scores()[name]) for name, score in straight.masks.scores().items())


def test_a_checkpoint_of_something_else_is_refused():
    with pytest.raises(StoreError, match="belongs to another model"):
        training(pooler=True).restore(checkpoint_of(training()))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("init", ["hard", "soft"])
def test_one_step_runs_on_the_meta_device(family, init):
    found = training(family, "meta", init=init)
    with found.attached():
        step, loss = next(found.steps())
    found.masks.set_sparsity(0.7)
    assert (step, loss.device.type) == (1, "meta")


def test_a_share_of_imps_schedule_trains_its_own_steps_also_when_resumed():
    method = SRNets(pruning="imp", sparsity=0.3, epochs=10 / 3, batch_size=8, learning_rate=0.01)

    def between(share, model=None, resumed=None):
        model = model or tiny_model(dropout=0.2)
        weights = masked_weights(model, pooler=False)
        mask = draw_unstructured(magnitudes(weights), 0.2, "matrix")
        this = Round(round_settings(method), model, rows(), 5, "cpu", mask, cross_entropy, share, weights)
        session = Session(stored=resumed)
        this.run(session)
        return this, session

    # 10 steps in epochs of 3.
    first, session = between((0.0, 0.2))
    assert (session.steps, first.ends) == ([1, 2], (2,))
    second, session = between((0.2, 0.6))
    assert (session.steps, second.ends) == ([3, 4, 5, 6], (3, 6))
    assert [record["step"] for record in second.history] == [1, 2]
    resumed, again = between((0.2, 0.6), resumed=session.kept[5])
    assert (again.steps, again.records) == ([6], session.records)
    assert all(torch.equal(score, resumed.scores()[name]) for name, score in second.scores().items())
    assert between((0.0, 0.01))[1].steps == [1], "at least one step"
    assert between((0.99, 1.0))[1].steps == [10]
    # The rate is that of the whole schedule: after step 6 of 10, with one step of warm-up, 5/9 of the full one.
    assert second.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 5 / 9)
    assert "classifier.weight" in second.scores()
