"""Checkpoints are written during training, so that a kill at any time loses at most one mini-epoch."""

import io
import random
import time

import pytest
import torch

from tests.stages import Stage
from tune_tickets.engine.checkpoint import Keeper
from tune_tickets.engine.store import Store

STAGE = Stage("retrain", {"number": 0})


class SlowStore(Store):
    """Takes its time for checkpoints."""

    seconds = 0.0

    def save_checkpoint(self, stage, files, writer=None) -> None:
        time.sleep(self.seconds)
        super().save_checkpoint(stage, files, writer)


@pytest.fixture
def store(tmp_path):
    return SlowStore(str(tmp_path / "store"))


def kept_step(store: Store) -> int:
    """Return the step from which a training would resume if it were killed now."""
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


def places(store: Store) -> set[str]:
    return {path.split("/")[2] for path in store.files() if "/checkpoint-" in path}


def test_states_go_over_the_older_of_two_and_the_last_stays_alone(store):
    keeper = Keeper(store, STAGE, mini_epoch=1, seconds=0.0, started=0)
    seen = set()
    for step in range(1, 6):
        keeper.after(step, state_at(step, weights=torch.full((6 - step,), float(step))))  # shorter every time
        assert kept_step(store) == step
        seen |= places(store)
    assert seen == places(store), "no place but those two"
    assert len(seen) == 2
    keeper.close()
    assert (len(places(store)), kept_step(store)) == (1, 5)
    store.drop_checkpoint(STAGE)
    assert places(store) == set()


def test_a_state_that_is_cut_off_while_it_is_written_leaves_the_one_before(store):
    keeper = Keeper(store, STAGE, mini_epoch=1, seconds=0.0, started=0)
    for step in (1, 2, 3):
        keeper.after(step, state_at(step))

    def cut_off(stream) -> None:
        stream.write(b"half of a state")
        raise ConnectionError("killed")

    with pytest.raises(ConnectionError):
        store.save_checkpoint(STAGE, {"state.pt": cut_off}, keeper._name)
    assert kept_step(store) == 3
    keeper.close()
    again = Keeper(store, STAGE, mini_epoch=1, seconds=0.0, started=3)
    again.after(4, state_at(4))
    again.close()
    assert (len(places(store)), kept_step(store)) == (1, 4), "those of the one before are gone"


def test_a_file_that_a_later_state_does_not_have_is_not_left(store):
    keeper = Keeper(store, STAGE, mini_epoch=1, seconds=0.0, started=0)
    for step in (1, 2):
        keeper.now(step, lambda: {"state.pt": b"much", "scores.json": b"[]"})
    keeper.now(3, lambda: {"scores.json": b"[1]"})
    keeper.close()
    assert [path.rsplit("/", 1)[1] for path in store.files() if "/checkpoint-" in path] == ["scores.json"]
    assert store.load_checkpoint(STAGE) == {"scores.json": b"[1]"}


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
