"""Leases: one holder at a time, renewed while it is alive, taken over when it is dead."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace

import pytest

from tests.flow.conftest import ignore
from tests.stages import Stage
from tune_tickets.engine.lease import Holder, LeaseHeld, _alone, holder_of, leased
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store

STAGE = Stage("retrain", {"seed": 1})
ANOTHER = Holder("token", "broker", "another machine", 1, "long ago", 0.0, 0.0, 60.0)
CHILD = """
import sys, time
from tune_tickets.engine.lease import leased
from tests.stages import Stage
from tune_tickets.engine.store import Store
with leased(Store(sys.argv[1]), Stage("retrain", {"seed": 1}), 60.0):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(str(tmp_path / "store"))


def put(store: Store, holder: Holder) -> None:
    store.write(f"{store.folder(STAGE.name, STAGE.digest)}/lease.json", json.dumps(asdict(holder)).encode())


def taken(store: Store, owner: str = "") -> bool:
    try:
        with leased(store, STAGE, 60.0, owner):
            return True
    except LeaseHeld:
        return False


@pytest.mark.parametrize("url", ["{tmp_path}/store", "memory://leases"])
def test_a_lease_has_one_holder_and_is_gone_with_it(url, tmp_path):
    store = Store(url.format(tmp_path=tmp_path))
    with leased(store, STAGE, 60.0):
        assert holder_of(store, STAGE, "").pid == os.getpid()
        with pytest.raises(LeaseHeld, match=f"is computed by process {os.getpid()} on "):
            leased(store, STAGE, 60.0).__enter__()
    assert holder_of(store, STAGE, "") is None
    assert taken(store)
    with pytest.raises(ZeroDivisionError), leased(store, STAGE, 60.0):
        raise ZeroDivisionError
    assert taken(store)


def test_a_lease_is_respected_while_its_process_lives_and_taken_over_at_once_when_it_is_killed(store):
    child = subprocess.Popen([sys.executable, "-c", CHILD, store.url], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    assert not taken(store)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert taken(store)


def test_the_lease_of_another_machine_is_taken_over_when_its_time_is_out(store):
    put(store, replace(ANOTHER, renewed=time.time() - 59))
    assert not taken(store)
    put(store, replace(ANOTHER, renewed=time.time() - 61))
    assert taken(store)


def test_a_broker_starts_its_own_lost_task_again_without_waiting(store):
    put(store, replace(ANOTHER, renewed=time.time()))
    assert not taken(store, "another broker")
    assert taken(store, "broker")


def test_a_lease_is_renewed_for_as_long_as_it_is_held(store):
    with leased(store, STAGE, 1.0):
        time.sleep(1.5)
        assert holder_of(store, STAGE, "") is not None
        assert time.time() - holder_of(store, STAGE, "").renewed < 1.0


class Unsteady(Store):
    """A store that is away every now and then, with an error that is no OSError: as buckets are."""

    away = False

    def read_path(self, path: str) -> bytes | None:
        if self.away:
            raise RuntimeError("could not connect to the endpoint")
        return super().read_path(path)


def test_a_store_that_is_away_for_a_moment_costs_neither_the_lease_nor_the_stage(tmp_path):
    store = Unsteady(str(tmp_path / "store"))
    with leased(store, STAGE, 1.0):
        store.away = True
        time.sleep(0.6)
        store.away = False
        time.sleep(0.6)
        assert holder_of(store, STAGE, "") is not None, "renewed again"
        store.away = True
    store.away = False
    assert taken(store), "what was left behind is dead"


def test_a_holder_that_was_held_up_leaves_the_lease_of_the_one_who_took_over(store):
    with leased(store, STAGE, 0.3):
        with _alone(store):
            put(store, replace(ANOTHER, renewed=time.time()))
        time.sleep(0.5)
        assert holder_of(store, STAGE, "").token == ANOTHER.token
    assert holder_of(store, STAGE, "").token == ANOTHER.token


def test_a_lease_cut_off_while_it_was_written_is_in_nobodys_way(store):
    store.write(f"{store.folder(STAGE.name, STAGE.digest)}/lease.json", b'{"token": "ab')
    assert taken(store)


@pytest.mark.parametrize("_", range(20))
def test_of_many_who_find_a_dead_holder_one_takes_over(store, _):
    put(store, ANOTHER)
    many = 8
    ready, answered = threading.Barrier(many), threading.Barrier(many, timeout=60)
    holding = []

    def want() -> None:
        ready.wait()
        try:
            with leased(store, STAGE, 60.0):
                holding.append(1)
                answered.wait()
        except LeaseHeld:
            answered.wait()

    threads = [threading.Thread(target=want) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(holding) == 1


def test_a_stage_wanted_by_two_who_know_nothing_of_each_other_is_computed_once(make_pipeline, store_url, tmp_path):
    pipeline = make_pipeline()
    stage, results = pipeline.retrain(None), []

    def want() -> None:
        results.append(LocalRunner(store_url, pipeline.settings.resources).run(stage, ignore))

    threads = [threading.Thread(target=want) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.computed for result in results) == [False, True]
    assert len(list((tmp_path / "store" / "retrain").glob("*/attempt-*"))) == 1
    assert results[0].history == results[1].history
