"""States are kept while training goes on, so that a kill at any moment costs no more than a mini-epoch."""

import io
import random
import time

import pytest
import torch

from tune_tickets.trial.keeping import Keeper
from tune_tickets.trial.stage import Stage
from tune_tickets.trial.store import Store

STAGE = Stage("retrain", {"number": 0})


class SlowStore(Store):
    """Takes its time for checkpoints."""

    seconds = 0.0

    def save_checkpoint(self, stage, files) -> None:
        time.sleep(self.seconds)
        super().save_checkpoint(stage, files)


@pytest.fixture
def store(tmp_path):
    return SlowStore(str(tmp_path / "store"))


def kept_step(store: Store) -> int:
    """The step a training would go on from if it were killed now."""
    found = store.load_checkpoint(STAGE)
    return 0 if found is None else int(torch.load(io.BytesIO(found["state.pt"]), weights_only=True)["step"])


def state_at(step: int, **others: object):
    return lambda: {"state.pt": {"step": step, **others}}


@pytest.mark.parametrize("mini_epoch", [1, 2, 4, 7])
@pytest.mark.parametrize("writing", [0.0, 0.01, 0.05])
def test_never_more_than_a_mini_epoch_is_lost_however_slow_the_disk(mini_epoch, writing, store):
    numbers = random.Random(mini_epoch)
    keeper = Keeper(store, STAGE, mini_epoch, seconds=0.0, started=0)
    for step in range(1, 30):
        time.sleep(numbers.choice([0.0, 0.004, 0.01]))
        assert step - kept_step(store) <= mini_epoch, "killed at the end of this step"
        store.seconds = writing * numbers.random()
        keeper.after(step, state_at(step))
    keeper.close()


def test_training_goes_on_while_a_state_is_written(store):
    keeper = Keeper(store, STAGE, mini_epoch=100, seconds=0.0, started=0)
    store.seconds = 0.2
    for step in range(1, 101):
        time.sleep(0.002)
        keeper.after(step, state_at(step))
    assert kept_step(store) == 100, "the first one is waited for: nobody knows yet how long it takes"
    for step in range(101, 200):
        time.sleep(0.005)
        started = time.monotonic()
        keeper.after(step, state_at(step))
        assert time.monotonic() - started < 0.15, "no later one is: it is begun in time"
    keeper.close()
    assert 100 < kept_step(store) < 200


def test_what_is_written_is_the_state_as_it_was_taken(store):
    weights, moments = torch.zeros(3), {"exp_avg": torch.zeros(2)}
    history = [{"loss": 1.0}]
    store.seconds = 0.1
    keeper = Keeper(store, STAGE, mini_epoch=2, seconds=0.0, started=0)
    keeper._lead = 1  # as if the last one had taken a step to write
    keeper.after(1, state_at(1, weights=weights, groups=[moments], history=history))
    weights += 1.0
    moments["exp_avg"] += 1.0
    history.append({"loss": 2.0})
    keeper.close()
    parts = torch.load(io.BytesIO(store.load_checkpoint(STAGE)["state.pt"]), weights_only=True)
    assert parts["weights"].tolist() == [0.0, 0.0, 0.0]
    assert parts["groups"][0]["exp_avg"].tolist() == [0.0, 0.0]
    assert parts["history"] == [{"loss": 1.0}]


def test_memory_is_used_again_unless_the_shape_is_another(store):
    keeper = Keeper(store, STAGE, mini_epoch=1, seconds=0.0, started=0)
    keeper.after(1, state_at(1, weights=torch.zeros(3)))
    first = keeper._copies[("state.pt", "weights")]
    keeper.after(2, state_at(2, weights=torch.ones(3)))
    assert keeper._copies[("state.pt", "weights")] is first
    keeper.after(3, state_at(3, weights=torch.full((4,), 2.0)))
    keeper.close()
    parts = torch.load(io.BytesIO(store.load_checkpoint(STAGE)["state.pt"]), weights_only=True)
    assert parts["weights"].tolist() == [2.0] * 4


def test_a_state_can_be_had_at_once_and_is_not_written_twice(store):
    keeper = Keeper(store, STAGE, mini_epoch=50, seconds=0.0, started=0)
    keeper.now(3, state_at(3))
    assert kept_step(store) == 3
    (pointer,) = store.files().keys() & {f"retrain/{STAGE.digest}/checkpoint.json"}
    before = store.read_path(f"{store.root}/{pointer}")
    keeper.now(3, state_at(3))
    assert store.read_path(f"{store.root}/{pointer}") == before
    keeper.close()


def test_with_seconds_states_are_as_rare_as_asked(store):
    keeper = Keeper(store, STAGE, mini_epoch=1, seconds=3600.0, started=0)
    for step in range(1, 10):
        keeper.after(step, state_at(step))
    keeper.close()
    assert kept_step(store) == 0


def test_a_disk_that_refuses_ends_the_training(store, monkeypatch):
    def full(path: str, content: object) -> str:
        raise OSError(28, "No space left on device")

    keeper = Keeper(store, STAGE, mini_epoch=1, seconds=0.0, started=0)
    monkeypatch.setattr(store, "fill", full)
    with pytest.raises(OSError, match="No space left"):
        keeper.after(1, state_at(1))
    keeper.close()
