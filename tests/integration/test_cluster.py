"""`run --address` on a real cluster of two nodes: the search, the checks before it, and the settings of the nodes."""

import json
import os
import subprocess
import sys
import time
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.conftest import ROOT, TAG, left_behind

pytestmark = pytest.mark.integration
SESSION = """
import os, sys, ray
from tune_tickets.config.search import Resources
from tune_tickets.errors import ResourceError
from tune_tickets.engine.client import start_broker
from tune_tickets.search.session import ray_session

address, store = sys.argv[1:]
for gpus, where in ((1.0, store), (0.0, "~/store")):
    try:
        with ray_session(Resources(address=address, gpus=gpus), where):
            print("let through")
    except ResourceError as error:
        print(str(error).replace("\\n", " "))
with ray_session(Resources(address=address), store) as room:
    seen = ray.remote(lambda: [os.environ.get(name) for name in ("TUNE_TICKETS_CACHE", "TUNE_TICKETS_OFFLINE", "HOME")])
    print(room)
    print(ray.get(seen.remote()))
    broker = start_broker("broker", store, Resources())
    ray.get(broker.snapshot.remote())
    [actor] = ray._private.state.actors(broker._actor_id.hex()),
    head = [node["NodeID"] for node in ray.nodes() if "node:__internal_head__" in node["Resources"]]
    print("broker on the head:", [actor["Address"]["NodeID"]] == head)
"""


class Joined(NamedTuple):
    """A cluster: its addresses, the environment of those that may join, and a folder."""

    address: str
    dashboard: str
    environment: dict[str, str]
    folder: Path

    def call(self, *command: object) -> str:
        """All that a command prints, run as one who may join."""
        words = [sys.executable, *map(str, command)]
        ended = subprocess.run(words, env=self.environment, cwd=self.folder, text=True, capture_output=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def joined(ray_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    environment = os.environ | {
        TAG: str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "RAY_TMPDIR": str(ray_folder),  # 'auto' is looked up there, too
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": uuid.uuid4().hex,
        "TUNE_TICKETS_OFFLINE": "1",
        "HOME": str(folder / "home"),
        "COLUMNS": "200",
    }
    script = Path(__file__).parent / "local_cluster.py"
    for home in ("home", "home-of-the-node"):
        (folder / home).mkdir()
    cluster = subprocess.Popen(
        [sys.executable, str(script), str(folder / "home-of-the-node")],
        env=environment, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        for line in cluster.stdout:
            if line.startswith("address="):
                break
        else:
            pytest.fail(cluster.stderr.read())
        address, _, dashboard = line.partition("=")[2].strip().partition(" ")
        yield Joined(address, dashboard, environment, folder)
    finally:
        cluster.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while left_behind(str(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left_behind(str(folder)) == []


def test_a_cluster_is_looked_at_before_anything_is_spent(joined):
    environment, folder = joined.environment, joined.folder
    large, apart, room, seen, broker = joined.call("-c", SESSION, joined.address, folder / "store").splitlines()[-5:]
    assert large.startswith(
        "a stage asks for 1 CPU and 1 GPU on one node; the cluster has nodes of 0 CPU and 0 GPU or "
    )
    assert "no autoscaler adds any" in large
    assert apart.startswith("these nodes of the cluster do not match the driver:")
    assert "the store ~/store cannot be read there (FileNotFoundError" in apart
    assert apart.count("  node ") == 1, "the head shares it"
    assert room == "Cluster of 2 nodes, free for up to 1 stage now. A stage needs 1 CPU, 1 free, no autoscaler adds any"
    assert seen == str([environment["TUNE_TICKETS_CACHE"], "1", str(folder / "home-of-the-node")])
    assert broker == "broker on the head: True"


FEW = ["search.trials=1", "retraining.epochs=1", "evaluation.rows=2"]
FEW += ["controls.dense=false", "controls.random=false", "objective.floor_points=null"]


def statuses(results: Path) -> list[str]:
    return [trial["status"] for trial in json.loads((results / "summary.json").read_text())["trials"]]


def test_a_search_joins_a_cluster_and_leaves_it_as_it_was(joined, tiny_yaml, tmp_path):
    results = tmp_path / "results"
    search = ["-m", "tune_tickets.cli", "run", tiny_yaml, *FEW, "--address", joined.address, "--output", results]
    assert "Cluster of 2 nodes, free for up to 1 stage now" in joined.call(*search)
    assert statuses(results) == ["complete"]
    assert not list((results / "store" / "nodes").iterdir()), "the token went with the driver"
    count = "import ray, sys; ray.init(sys.argv[1], logging_level='ERROR'); print(sum(n['Alive'] for n in ray.nodes()))"
    assert joined.call("-c", count, joined.address).split()[-1] == "2"


@pytest.mark.skipif(find_spec("aiohttp_cors") is None, reason="jobs need ray[default], in the extra 'cluster'")
def test_a_search_is_submitted_as_a_job(joined, tiny_yaml, tmp_path):
    results = tmp_path / "results"
    submit = ["-m", "ray.scripts.scripts", "job", "submit", "--address", f"http://{joined.dashboard}"]
    submit += ["--", sys.executable, "-m", "tune_tickets.cli", "run", tiny_yaml]
    assert "succeeded" in joined.call(*submit, *FEW, "--address", "auto", "--output", results)
    assert statuses(results) == ["complete"]
