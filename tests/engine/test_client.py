"""The trial's side of the broker: which records of a stage it forwards."""

from types import SimpleNamespace

import pytest

from tests.stages import Stage
from tune_tickets.engine import client
from tune_tickets.engine.broker import Reply
from tune_tickets.engine.client import BrokerRunner
from tune_tickets.engine.stage import StageKey, StageResult
from tune_tickets.engine.store import Store

STAGE = Stage("search", {"seed": 1}, goal={"gamma": 0.1})


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """The records that a trial hears of, given what the broker replies; a callable among them happens in between."""
    monkeypatch.setattr(client.ray, "get", lambda reply: reply)

    def run(*replies) -> list[int]:
        left, heard = list(replies), []

        def join(stage, waiter, seen) -> Reply:
            while callable(left[0]):
                left.pop(0)()
            return left.pop(0)

        broker = SimpleNamespace(
            join=SimpleNamespace(remote=join), leave=SimpleNamespace(remote=lambda digest, waiter: None)
        )
        BrokerRunner(broker, str(tmp_path), "trial").run(STAGE, lambda record: heard.append(record["distance"]))
        return heard

    return run


def done(*distances: int) -> Reply:
    history = [{"distance": distance} for distance in distances]
    return Reply("done", result=StageResult(StageKey("search", STAGE.digest, STAGE.digest), {}, {}, history, 1.0))


def test_the_history_that_another_goal_has_left_is_not_passed_on(follow, tmp_path):
    store = Store(str(tmp_path))
    earlier = store.begin(Stage("search", STAGE.inputs, goal={"gamma": 0.4}))
    for distance in (91, 92, 93):
        earlier.report({"distance": distance})
    ours = store.begin(STAGE)

    def reports(*distances: int):
        return lambda: [ours.report({"distance": distance}) for distance in distances]

    heard = follow(
        Reply("running", launched=True), reports(1, 2), Reply("running", records=2), reports(3), done(1, 2, 3)
    )
    assert heard == [1, 2, 3]


def test_a_stage_tried_again_is_followed_from_where_it_was(follow, tmp_path):
    store = Store(str(tmp_path))
    first, again = store.begin(STAGE), store.begin(STAGE)
    heard = follow(
        lambda: [first.report({"distance": distance}) for distance in (1, 2, 3)],
        Reply("running", records=3),
        lambda: again.report({"distance": 1}),
        Reply("running", records=1),
        lambda: [again.report({"distance": distance}) for distance in (2, 3, 4)],
        Reply("running", records=4),
        done(1, 2, 3, 4, 5),
    )
    assert heard == [1, 2, 3, 4, 5]
