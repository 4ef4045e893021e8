import copy
import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from tests.models.tiny import FAMILIES, gates_for, tiny_batch, tiny_config, tiny_model
from tests.training.sessions import Session, checkpoint_of, to_bytes
from tune_tickets.config.training import Adversary
from tune_tickets.errors import StoreError
from tune_tickets.models.surgery import prune
from tune_tickets.tickets.drawing import draw, random_scores
from tune_tickets.tickets.gates import penalty
from tune_tickets.training.adversary import FreeLB, adversary_of
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.evaluation import accuracy_under_pgd
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.trainer import Checkpoint, Recipe, Trainer

FREELB = Adversary(kind="freelb", steps=3, step_size=0.1)


def rows(family: str) -> EncodedRows:
    batch = tiny_batch(family, rows=20)
    return EncodedRows(
        batch["input_ids"].int(), batch.get("token_type_ids"), batch["attention_mask"].sum(dim=1), batch["labels"]
    )


class WithGates(Trainer):
    """Declares its gates, as methods do."""

    def __init__(self, gates, *others, **options) -> None:
        super().__init__(*others, **options)
        self.gates = gates

    def parts(self):
        return {"model": self.model, "gates": self.gates}


def run(family="bert", seed=5, adversary=FREELB, total=7, device="cpu", dropout=0.2, ends=()) -> WithGates:
    """A search as a method sets it up: gates attached, penalty, adversary, dropout."""
    # SDPA's mask is prepared by looking at its values, which meta tensors do not have.
    model = tiny_model(family, "eager" if device == "meta" else "sdpa", dropout).to(device)
    gates, _ = gates_for(model)
    optimizer = build_optimizer(model, 1e-2, 0.01, gates, coefficient_learning_rate=0.05)
    recipe = Recipe(
        batches=Batches(rows(family), 8, seed, device),
        loss=cross_entropy,
        adversary=adversary,
        total_steps=total,
        warmup=0.1,
        clip=1.0,
        seed=seed,
        penalty=partial(penalty, gates, 0.01, 0.001),
    )
    return WithGates(gates, model, optimizer, recipe, ends=ends)


def everything(state: WithGates) -> dict[str, torch.Tensor]:
    tensors = {**state.model.state_dict(), **state.gates.state_dict(prefix="gates.")}
    for index, entry in state.optimizer.state_dict()["state"].items():
        tensors |= {f"{index}.{name}": value for name, value in entry.items()}
    return tensors


def assert_same_bits(first: WithGates, second: WithGates) -> None:
    expected, found = everything(first), everything(second)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stop", [1, 3, 6])
def test_interrupted_and_resumed_it_ends_with_the_same_bits(family, stop):
    straight = run(family)
    torch.manual_seed(1)
    losses = dict(straight.steps())
    assert list(losses) == [1, 2, 3, 4, 5, 6, 7]

    torch.manual_seed(2)
    broken = run(family)
    for step, _ in broken.steps():
        torch.rand(step)  # whatever happens between steps must not matter
        if step == stop:
            break
    checkpoint = checkpoint_of(broken)

    torch.manual_seed(3)
    resumed = run(family)
    resumed.restore(checkpoint)
    assert resumed.step == stop
    rest = dict(resumed.steps())
    assert all(torch.equal(losses[step], loss) for step, loss in rest.items())
    assert list(rest) == list(range(stop + 1, 8))
    assert_same_bits(straight, resumed)


@pytest.mark.parametrize(("kind", "passes"), [("none", 1), ("freelb", 3), ("pgd", 4)])
def test_rows_are_counted_once_per_pass(kind, passes):
    # 20 rows in batches of 8: an epoch is three steps, of which one has 4 rows. Six steps are two epochs.
    state = run(adversary=Adversary(kind=kind, steps=3), total=6)
    list(state.steps())
    assert state.row_passes == 2 * 20 * passes
    assert state.cost() == {"passes": 2 * passes, "seconds": state.seconds}
    state.last += 1  # else there is no state to keep
    again = run()
    again.restore(checkpoint_of(state))
    assert (again.row_passes, again.seconds) == (state.row_passes, state.seconds)
    assert state.seconds > 0.0


def test_an_evaluation_between_steps_changes_nothing():
    straight = run()
    list(straight.steps())
    probed = run()
    for _ in probed.steps():
        accuracy_under_pgd(probed.model, [tiny_batch()], Adversary(kind="pgd", steps=1), torch.Generator())
    assert_same_bits(straight, probed)


def test_the_seed_decides():
    weights = []
    for seed in (5, 5, 6):
        state = run(seed=seed)
        list(state.steps())
        weights.append(state.model.state_dict()["classifier.weight"])
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_training_leaves_the_callers_random_numbers_alone():
    state = run(total=1)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    list(state.steps())
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("clip", [0.05, 1000.0])
def test_one_step_is_the_clipped_gradient_of_loss_and_penalty(clip):
    """Against plain gradient descent written out by hand, in float64."""
    state = run(dropout=0.0, total=4)
    state.model.double()
    groups = [{"params": [*state.model.parameters(), *state.gates.parameters()], "lr": 0.5, "full_lr": 0.5}]
    state.optimizer = torch.optim.SGD(groups)
    recipe = state.recipe = replace(state.recipe, clip=clip, warmup=0.25)
    before = copy.deepcopy(dict(state.model.named_parameters()))
    coefficients = state.gates.heads.detach().clone()

    twin = run(dropout=0.0)
    twin.model.double()
    seen: list[torch.Generator] = []

    class Remembering(FreeLB):
        def backward(self, model, batch, loss_fn, generator):
            seen.append(generator.clone_state())
            return super().backward(model, batch, loss_fn, generator)

    state.adversary = Remembering(FREELB)
    next(state.steps())

    adversary_of(FREELB).backward(twin.model, recipe.batches[0], cross_entropy, seen[0])
    twin.gates.heads.grad += 0.01 * twin.gates.heads.detach().sign()
    twin.gates.neurons.grad += 0.001 * twin.gates.neurons.detach().sign()
    gradients = [p.grad.double() for p in (*twin.model.parameters(), *twin.gates.parameters())]
    norm = sum(gradient.square().sum() for gradient in gradients).sqrt()
    rate = 0.5 * (1 / 2) * min(1.0, clip / float(norm))  # the first of one warm-up step has half the rate
    for name, parameter in twin.model.named_parameters():
        torch.testing.assert_close(
            state.model.get_parameter(name), before[name] - rate * parameter.grad, rtol=1e-5, atol=1e-7
        )
    torch.testing.assert_close(state.gates.heads, coefficients - rate * twin.gates.heads.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
def test_a_step_runs_on_the_meta_device(family, kind):
    state = run(family, adversary=Adversary(kind=kind, steps=2), device="meta", total=2)
    for _, loss in state.steps():
        assert loss.device.type == "meta"
    assert all(parameter.device.type == "meta" for parameter in state.model.parameters())
    assert state.gates.heads.device.type == "meta"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pruned_model_trains_on_the_meta_device(family):
    recipe = run(family, adversary=Adversary(kind="none"), device="meta", total=1).recipe
    model = tiny_model(family, "eager").to("meta")
    prune(model, draw(*random_scores(2, 4, 24, seed=0), heads=0.25, neurons=0.3))
    ticket = Trainer(model, build_optimizer(model, 1e-3, 0.01), replace(recipe, penalty=None))
    assert len(list(ticket.steps())) == 1


def test_training_learns_the_rows_it_sees():
    losses = [loss.item() for _, loss in run(total=60, adversary=Adversary(kind="none"), dropout=0.0).steps()]
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])


@pytest.mark.parametrize(
    "damage", [lambda state: b"", lambda state: b"nothing of the kind", lambda state: state[:-100]]
)
def test_a_damaged_checkpoint_is_refused(damage):
    state = run()
    checkpoint = checkpoint_of(state)
    with pytest.raises(StoreError, match="checkpoint of a training cannot be read"):
        state.restore(replace(checkpoint, state=damage(checkpoint.state)))


def test_a_checkpoint_of_another_model_is_refused():
    with pytest.raises(StoreError, match="another model"):
        run("roberta").restore(checkpoint_of(run("bert")))


def mean(losses: dict[int, torch.Tensor], first: int, last: int) -> float:
    return sum(losses[step].item() for step in range(first, last + 1)) / (last - first + 1)


def test_intervals_end_where_declared_with_the_mean_loss_of_their_own_steps():
    losses = dict(run().steps())
    trainer, session = run(ends=(2, 6)), Session()
    trainer.run(session)
    assert session.steps == [1, 2, 3, 4, 5, 6, 7], "the last step is trained though no interval ends there"
    assert [record["step"] for record in session.records] == [1, 2]
    wanted = [mean(losses, 1, 2), mean(losses, 3, 6)]
    assert [record["loss"] for record in session.records] == pytest.approx(wanted)
    assert trainer.history == session.records
    assert (sorted(session.kept), session.waited) == ([1, 2, 3, 4, 5, 6], []), "nothing to keep after the last step"


def test_a_share_of_the_schedule_counts_its_first_interval_from_its_first_step():
    part, session = run(), Session()
    part = Trainer(part.model, part.optimizer, replace(part.recipe, penalty=None), ends=(4, 5), first=2, last=5)
    part.run(session)
    assert session.steps == [3, 4, 5]
    assert [record["step"] for record in session.records] == [1, 2]
    assert part.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * (7 - 4) / 7), "of the whole schedule"


@pytest.mark.parametrize("stop", [1, 2, 3, 6])
def test_a_run_resumed_from_what_was_kept_has_the_same_history_and_bits(stop):
    straight, first = run(ends=(2, 6, 7)), Session()
    straight.run(first)
    resumed, second = run(ends=(2, 6, 7)), Session(stored=first.kept[stop])
    resumed.run(second)
    assert second.steps == list(range(stop + 1, 8))
    assert second.records == first.records, "those from before are reported again"
    assert resumed.history == straight.history
    assert_same_bits(straight, resumed)


class Fast(WithGates):
    """Records are expensive, and two are enough."""

    waits_for_records = True

    def enough(self) -> bool:
        return len(self.history) == 2

    def shown(self, record):
        return {"number": record["step"]}


def test_a_training_may_stop_early_wait_for_its_checkpoint_and_show_less_than_it_keeps():
    plain = run()
    trainer = Fast(plain.gates, plain.model, plain.optimizer, plain.recipe, ends=(1, 3, 5))
    session = Session()
    trainer.run(session)
    assert session.steps == [1, 2, 3]
    assert session.records == [{"number": 1}, {"number": 2}]
    assert (sorted(session.kept), session.waited) == ([1, 2], [1])
    assert json.loads(session.kept[1]["history.json"])["history"] == trainer.history[:1]


def test_result_files_written_before_a_checkpoint_are_adopted_or_all_starts_again():
    first = Session()
    first.files = {"ticket-001": "attempt-1/ticket-001#abc"}
    run(ends=(2,)).run(first)
    adopted = Session(stored=first.kept[4])
    run(ends=(2,)).run(adopted)
    assert (adopted.files, adopted.steps) == (first.files, [5, 6, 7])

    class Gone(Session):
        def adopt(self, files) -> bool:
            return False

    gone = Gone(stored=first.kept[4])
    run(ends=(2,)).run(gone)
    assert (gone.steps, gone.records) == ([1, 2, 3, 4, 5, 6, 7], first.records)


OLD = {"step": 4, "row_passes": 1, "seconds": 1.0, "optimizer": {}, "model": {}, "gates": None, "losses": 0.0}


@pytest.mark.parametrize(
    "stored",
    [
        {"state.pt": OLD, "history.json": b"[]", "kept.json": b"{}"},
        {"state.pt": OLD, "trajectory.safetensors": b"", "losses.json": b"[]", "costs.json": b"[]"},
        {"state.pt": {**OLD, "masks": {}, "history": []}},
        {"history.json": b'[{"step": 1}]'},
        {"history.json": b'{"format": 99, "history": [{"step": 1}]}'},
    ],
)
def test_checkpoints_of_another_format_are_discarded(stored):
    session = Session(stored=to_bytes(stored))
    assert Checkpoint.load(session) is None
    run(total=2).run(session)
    assert session.steps == [1, 2]


class Counting(FreeLB):
    """An adversary that remembers: how many batches it saw."""

    def __init__(self, settings) -> None:
        super().__init__(settings)
        self.seen = torch.zeros(())

    def parts(self):
        return {"memory": self}

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state) -> None:
        self.seen = state["seen"]

    def backward(self, *arguments):
        self.seen = self.seen + 1
        return super().backward(*arguments)


def test_the_memory_of_an_adversary_belongs_to_the_checkpoint():
    trainer, session = run(), Session()
    trainer.adversary = Counting(FREELB)
    trainer.run(session)
    assert trainer.adversary.seen == 7
    resumed, again = run(), Session(stored=session.kept[4])
    resumed.adversary = Counting(FREELB)
    resumed.run(again)
    assert (again.steps, resumed.adversary.seen) == ([5, 6, 7], 7)
    forgetful = Session(stored=session.kept[4])
    run().run(forgetful)
    assert forgetful.steps == [1, 2, 3, 4, 5, 6, 7], "the parts are others: it starts again"


def test_dropout_is_on_while_training():
    assert tiny_config("bert", 0.2).hidden_dropout_prob == 0.2
    state = run()
    next(state.steps())
    assert state.model.training
