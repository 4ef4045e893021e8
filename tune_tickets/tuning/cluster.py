"""Looking at a cluster before anything is spent on it: room for a stage, and every node on common ground."""

from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from ruamel.yaml import YAML

from tune_tickets.config.resources import Resources
from tune_tickets.errors import ResourceError
from tune_tickets.trial.client import ON_HEAD
from tune_tickets.trial.ground import Ground, has_written, problems_here
from tune_tickets.tuning.room import Room, addable

_SECONDS = 120.0
"""How long a node may take to answer; its first worker has to import our package."""


def check_cluster(resources: Resources, ground: Ground) -> str:
    """Refuse a cluster on which stages could not run; else say what they need and what there is."""
    room = look_around()
    room.check(resources)
    check_nodes(ground)
    return room.describe(resources)


def look_around() -> Room:
    """The nodes that are up, and those that the autoscaler may add."""
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    free = ray._private.state.available_resources_per_node()  # type: ignore[no-untyped-call]
    seen = ray.remote(autoscaler_config).options(num_cpus=0, resources=ON_HEAD)
    config = ray.get(seen.remote(ray.get_runtime_context().gcs_address), timeout=_SECONDS)
    return Room(
        nodes=tuple(node["Resources"] for node in nodes),
        free=tuple(free.get(node["NodeID"], {}) for node in nodes),
        addable=None if config is None else addable(config, len(nodes)),
    )


def autoscaler_config(gcs_address: str) -> dict[str, Any] | None:
    """Runs on the head, beside the process that scales: its configuration, {} if it has none to scale by.

    None if there is no such process: the scaling, if any, is done elsewhere, as under KubeRay.
    """
    import psutil  # comes with Ray

    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if f"--gcs-address={gcs_address}" in words and any(word.endswith("monitor.py") for word in words):
            for word in words:
                if word.startswith("--autoscaling-config="):
                    path = Path(word.partition("=")[2]).expanduser()
                    return dict(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
            return {}
    return None


def check_nodes(ground: Ground) -> None:
    """Every node that is up has the driver's packages, sees its store and can write to it."""
    asked = {}
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        if node["Alive"]:
            pinned = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(problems_here).options(num_cpus=0, max_retries=1, scheduling_strategy=pinned)
            asked[node["NodeID"]] = (f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})",
                                     task.remote(ground, node["NodeID"]))  # fmt: skip
    found = {}
    for identity, (name, answer) in asked.items():
        if problems := _answer(ground, identity, answer):
            found[name] = problems
    if found:
        lines = [f"  node {name}: {problem}" for name, problems in found.items() for problem in problems]
        raise ResourceError("the nodes of the cluster are not on common ground:\n" + "\n".join(lines))


def _answer(ground: Ground, identity: str, answer: Any) -> list[str]:  # noqa: ANN401 - an object ref
    try:
        problems: list[str] = ray.get(answer, timeout=_SECONDS)
    except ray.exceptions.GetTimeoutError:
        return [f"no answer within {_SECONDS:g} seconds: see whether it is up with 'ray status'"]
    except ray.exceptions.RayError as error:
        return [f"a task cannot run there: is tune_tickets installed on it? ({str(error).strip().splitlines()[-1]})"]
    if not problems and not has_written(ground, identity):
        return [f"what it writes to the store {ground.store_url} is not seen by the driver: they do not share it"]
    return problems
