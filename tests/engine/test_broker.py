"""The broker without a cluster: its time-outs, and how it handles a damaged or unreachable store."""

import os

import pytest

from tune_tickets.engine import broker
from tune_tickets.engine.broker import HEARTBEAT_SECONDS, Broker
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store, Unreadable


@pytest.fixture
def alone(tmp_path) -> Broker:
    """Without a session of Ray, which names it."""
    made = object.__new__(Broker)
    made._store = Store(str(tmp_path))
    made._kept = f"{tmp_path}/brokers/abc/values.json"
    return made


def test_a_tracking_server_that_does_not_answer_costs_no_trial_its_stage():
    import tune_tickets.tracking.runs  # noqa: F401 - says how long it asks a server

    tries = 1 + int(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
    assert 2 * tries * float(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"]) < HEARTBEAT_SECONDS


def test_who_waits_is_told_also_if_the_store_is_out_of_reach(alone, monkeypatch):
    def unreachable(store, damage):
        raise OSError("the bucket does not answer")

    monkeypatch.setattr(broker, "lost", unreachable)
    reply = alone._failed(Unreadable(StageKey("draw", "ab", "ab"), "mask.safetensors is missing"))
    assert (reply.state, reply.lost) == ("failed", None)
    assert "mask.safetensors is missing" in reply.error
    assert "the bucket does not answer" in reply.error


@pytest.mark.parametrize("content", [b"", b"{", b"3", b"[1]", b'[["x"]]'])
def test_a_broker_starts_again_whatever_it_finds_of_its_predecessor(alone, content):
    alone._store.write(alone._kept, content)
    assert alone._read_values() == []
    alone._store.write(alone._kept, b"[[0.5, 0.25]]")
    assert alone._read_values() == [(0.5, 0.25)]
