"""The broker in a real Ray session: one task per stage, failures reported, unwanted work cancelled."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import ray

from tests.stages import Stage
from tune_tickets.config import load_experiment
from tune_tickets.config.search import Resources
from tune_tickets.engine.client import BrokerRunner, StageFailed, start_broker
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.search.preflight import preflight
from tune_tickets.search.session import ray_session

pytestmark = pytest.mark.integration
POINT = {"method.gamma": 0.2, "method.drawing.heads": 0.25, "method.drawing.neurons": 0.3}


@pytest.fixture(scope="module")
def session(ray_folder, tmp_path_factory):
    os.environ["TUNE_TICKETS_RAY_DIR"] = str(ray_folder)
    with ray_session(Resources(), str(tmp_path_factory.mktemp("unused"))):
        yield
    del os.environ["TUNE_TICKETS_RAY_DIR"]


@pytest.fixture
def setting(session, tiny_yaml: Path, tmp_path: Path):
    """A broker, the URL of its store, and a pipeline whose stages it can compute."""
    url = str(tmp_path / "store")
    experiment = load_experiment(tiny_yaml)
    broker = start_broker(f"broker-{tmp_path.name}", url, Resources())
    pipeline = Flow(experiment.at(POINT), preflight(experiment, Store(url)), BrokerRunner(broker, url, "pipeline"))
    yield broker, url, pipeline
    ray.kill(broker)


def test_a_stage_wanted_by_many_trials_is_computed_once_and_followed_by_all(setting, tmp_path):
    broker, url, pipeline = setting
    stage = pipeline.retrain(None)
    results, histories = [], [[] for _ in range(4)]

    def want(index: int) -> None:
        results.append(BrokerRunner(broker, url, f"trial-{index}").run(stage, histories[index].append))

    threads = [threading.Thread(target=want, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(results) == 4
    assert sum(result.computed for result in results) == 1
    assert len(list((tmp_path / "store" / "retrain").glob("*/attempt-*"))) == 1
    assert all([record["epoch"] for record in history] == list(range(1, 9)) for history in histories)


def test_the_time_of_a_stage_is_counted_while_it_computes_and_also_if_it_comes_to_nothing(setting):
    broker, url, pipeline = setting
    assert ray.get(broker.take_seconds.remote()) == 0.0
    began = time.monotonic()
    runner = BrokerRunner(broker, url, "trial")

    def give_up() -> None:
        with pytest.raises(StageFailed):
            runner.run(retraining(pipeline, 1000))

    thread = threading.Thread(target=give_up)
    thread.start()
    under_way(broker, records=1)
    assert 0.0 < (first := ray.get(broker.take_seconds.remote())) < time.monotonic() - began
    runner.stop()
    thread.join(timeout=60)
    while ray.get(broker.snapshot.remote()):
        time.sleep(0.1)
    assert 0.0 < ray.get(broker.take_seconds.remote()) < time.monotonic() - began - first
    assert ray.get(broker.take_seconds.remote()) == 0.0


def test_trials_with_different_goals_on_one_trajectory_take_turns(setting):
    broker, url, pipeline = setting
    method = pipeline.settings.method
    goals = [{**method.stop_rule(), "gamma": gamma} for gamma in (0.4, 0.0, 0.2)]
    results = []

    def want(goal: dict[str, object]) -> None:
        stage = Stage("search", method.find(pipeline).inputs, {"data": pipeline.world.data}, goal)
        results.append(BrokerRunner(broker, url, f"trial-{goal['gamma']}").run(stage))

    threads = [threading.Thread(target=want, args=(goal,)) for goal in goals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len({result.key.digest for result in results}) == 1
    computed = sum(result.record["computed_mini_epochs"] for result in results)
    assert computed == max(result.record["stop"] for result in results) == 8


def test_a_failing_stage_says_why_to_everyone_who_waits(setting):
    broker, url, _ = setting
    stage = Stage("draw", {"kind": "shuffled", "ticket_seed": 0}, {"like": StageKey("draw", "0" * 64, "none")})
    with pytest.raises(StageFailed, match=r"stage 'draw' failed: Unreadable: the store .* has no result of stage draw"):
        BrokerRunner(broker, url, "trial").run(stage)


def retraining(pipeline: Flow, epochs: int) -> Stage:
    inputs = pipeline.retrain(None).inputs
    return Stage(
        "retrain", {**inputs, "retraining": {**inputs["retraining"], "epochs": epochs}}, {"data": pipeline.world.data}
    )


def test_what_stages_cannot_read_is_set_aside_once_and_computed_again(setting, tmp_path):
    _, _, pipeline = setting
    store = tmp_path / "store"

    def break_all(pattern: str) -> None:
        for path in store.glob(pattern):
            path.write_bytes(path.read_bytes()[:-1])

    trained = pipeline.run(pipeline.retrain(pipeline.draw(lambda record: None)), lambda record: None)
    pipeline.stages.clear()
    break_all("draw/*/attempt-*/mask.safetensors")
    break_all("retrain/*/attempt-*/ticket.safetensors")
    assert pipeline.run(pipeline._evaluate(trained), lambda record: None).record["clean"]["rows"] == 48
    assert [(stage.name, stage.cached) for stage in pipeline.stages] == [
        ("draw", False), ("retrain", False), ("evaluate", False)
    ]  # fmt: skip
    assert sorted(path.parts[-4] for path in (store / "quarantine").rglob("reason.json")) == ["draw", "retrain"]

    break_all("retrain/*/attempt-*/ticket.safetensors")
    [threat] = pipeline.world.threats
    pipeline.settings = pipeline.settings.model_copy(
        update={"evaluation": pipeline.settings.evaluation.model_copy(update={"shard": 4})}
    )
    shards = pipeline._shards(trained, threat, None)
    assert len(pipeline.run_all(shards)) == len(shards) == 2
    assert len(list((store / "quarantine").rglob("reason.json"))) == 3, "shards that find the same damage"


def test_a_stage_that_nobody_waits_for_any_more_is_cancelled(setting):
    broker, url, pipeline = setting
    long = retraining(pipeline, 1000)
    reply = ray.get(broker.join.remote(long, "impatient", 0))
    assert reply.launched
    assert [row["stage"] for row in ray.get(broker.snapshot.remote())] == ["retrain"]
    ray.get(broker.join.remote(long, "patient", 0))
    ray.get(broker.leave.remote(long.digest, "impatient"))
    time.sleep(1.0)
    assert [row["waiters"] for row in ray.get(broker.snapshot.remote())] == [["patient"]]
    ray.get(broker.leave.remote(long.digest, "patient"))
    deadline = time.monotonic() + 30
    while ray.get(broker.snapshot.remote()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ray.get(broker.snapshot.remote()) == []
    assert Store(url).result(long) is None


def wanted_by(broker, url: str, stage: Stage, names: list[str]) -> tuple[list[threading.Thread], dict, dict]:
    """Threads in which trials wait for a stage, and what they see and get."""
    histories: dict = {name: [] for name in names}
    results: dict = {}

    def want(name: str) -> None:
        results[name] = BrokerRunner(broker, url, name).run(stage, histories[name].append)

    threads = [threading.Thread(target=want, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    return threads, histories, results


def under_way(broker, records: int) -> None:
    """Wait until the only stage of a broker has shown something."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(row["done"] >= records for row in ray.get(broker.snapshot.remote()) if not row["elsewhere"]):
            return
        time.sleep(0.1)
    pytest.fail("no stage has begun")


def test_a_killed_broker_comes_back_and_nothing_is_lost_or_doubled(setting, ray_folder, tmp_path):
    broker, url, pipeline = setting
    ray.get(broker.tell_values.remote((0.5,)))
    stage = retraining(pipeline, 60)
    threads, histories, results = wanted_by(broker, url, stage, ["one", "two"])
    under_way(broker, records=16)
    [pid] = processes(ray_folder, b"ray::Broker")
    os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join(timeout=240)
    assert ray.get(broker.best_values.remote()) == [(0.5,)]
    assert [pid] != processes(ray_folder, b"ray::Broker")
    assert results["one"].history == results["two"].history
    for history in histories.values():
        assert [record["epoch"] for record in history] == list(range(1, 61))
    assert len(list((tmp_path / "store" / "retrain").glob("*/attempt-*"))) == 1
    undisturbed = LocalRunner(f"{url}-undisturbed", pipeline.settings.resources)
    preflight(load_experiment(tmp_path / "tiny.yaml"), Store(f"{url}-undisturbed"))
    assert undisturbed.run(stage).history == results["one"].history


def test_a_second_cluster_on_the_store_waits_for_the_stage_of_the_first(setting, tmp_path):
    broker, url, pipeline = setting
    other = start_broker(f"other-{tmp_path.name}", url, Resources())
    try:
        stage = retraining(pipeline, 30)
        [first], _, results = wanted_by(broker, url, stage, ["here"])
        under_way(broker, records=1)
        [second], histories, elsewhere = wanted_by(other, url, stage, ["there"])
        seen: list[str] = []
        while second.is_alive():
            seen += [row["elsewhere"] for row in ray.get(other.snapshot.remote())]
            second.join(0.2)
        first.join(timeout=120)
    finally:
        ray.kill(other)
    assert seen, "the second one has to wait"
    assert all(where.startswith("process ") for where in seen)
    assert (results["here"].computed, elsewhere["there"].computed) == (True, False)
    assert elsewhere["there"].history == results["here"].history == histories["there"]
    assert len(list((tmp_path / "store" / "retrain").glob("*/attempt-*"))) == 1


def computing(ray_folder: Path) -> list[int]:
    """The processes of this session that compute a stage right now."""
    return processes(ray_folder, b"ray::compute")


def processes(ray_folder: Path, named: bytes) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"TUNE_TICKETS_RAY_DIR={ray_folder}".encode() in (process / "environ").read_bytes().split(b"\0")
            if ours and (process / "cmdline").read_bytes().startswith(named):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_worker_killed_in_the_middle_of_an_attack_costs_time_and_never_a_row(setting, ray_folder, tmp_path):
    broker, url, pipeline = setting
    trained = pipeline.run(pipeline.retrain(None), lambda record: None)
    [threat] = pipeline.world.threats
    stages = pipeline._shards(trained, threat, None)
    found = []
    waiting = threading.Thread(target=lambda: found.extend(BrokerRunner(broker, url, "trial").run_all(stages)))
    waiting.start()
    deadline, victims = time.monotonic() + 120, []
    while not victims and time.monotonic() < deadline and waiting.is_alive():
        under_way = [row for row in ray.get(broker.snapshot.remote()) if row["stage"] == "attack"]
        victims = computing(ray_folder) if under_way else []
        time.sleep(0.05)
    assert victims, "the attack was over before it could be disturbed"
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    waiting.join(timeout=300)
    assert len(found) == len(stages)
    rows = [row for result in found for row in result.record["rows"]]
    assert len(rows) == pipeline.settings.evaluation.rows
    undisturbed = LocalRunner(url, pipeline.settings.resources)
    for stage, result in zip(stages, found, strict=True):
        again = Stage(stage.name, {**stage.inputs, "eval_batch_size": 63}, stage.upstream)  # another digest, same work
        assert undisturbed.run(again).record["rows"] == result.record["rows"]


def test_workers_are_kept_off_the_network_as_the_driver_is(session):
    names = ("TUNE_TICKETS_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")

    @ray.remote(num_cpus=0)
    def seen() -> list[str | None]:
        return [os.environ.get(name) for name in names]

    told = ray.get_runtime_context().runtime_env["env_vars"]
    assert [told[name] for name in names] == ["1"] * 4
    assert ray.get(seen.remote(), timeout=60) == ["1"] * 4
