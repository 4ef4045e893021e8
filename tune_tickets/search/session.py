"""Starts a local Ray session, or joins a cluster and checks that stages can run on it."""

import logging
import math
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from ruamel.yaml import YAML

from tune_tickets.config.search import Resources
from tune_tickets.engine.client import ON_HEAD
from tune_tickets.engine.node import Ground, common_ground, has_written, problems_here
from tune_tickets.errors import ResourceError
from tune_tickets.offline import is_offline, offline_environment

_CONNECT_SECONDS = 10.0
_STATUS = (sys.executable, "-c", "from ray.scripts.scripts import main; main()", "status", "--address")
_STATUS_SECONDS = 60.0
_STATUS_LIMITS = {"RAY_gcs_rpc_server_connect_timeout_s": "1", "RAY_py_gcs_connect_timeout_s": "5"}
"""How long Ray itself waits for an answer. With its defaults, `ray.init` tries for minutes."""


def _check_address(address: str) -> None:
    """Check that a Ray cluster answers, with `ray status` in a process that can be stopped.

    Raises:
        ResourceError: It is not an address.
        ConnectionError: The port is closed, or no Ray cluster listens there.
    """
    host, _, port = address.rpartition(":")
    if address != "auto":
        if not host or not port.isdecimal():
            raise ResourceError(
                f"resources.address={address!r} is not an address: give host:port, such as 10.0.0.7:6379, or 'auto' on "
                "a node of the cluster"
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"{address}: {error}") from None
    try:
        status = subprocess.run(
            [*_STATUS, address],
            env={**os.environ, **_STATUS_LIMITS},
            capture_output=True,
            text=True,
            timeout=_STATUS_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ConnectionError(f"'ray status' got no answer within {_STATUS_SECONDS:g} s") from None
    if status.returncode != 0:
        said = (status.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConnectionError(f"'ray status' failed: {said} The port of a Ray head is 6379 unless set otherwise")


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one kind that the autoscaler may add."""

    resources: Mapping[str, float]
    count: int


@dataclass(frozen=True)
class Room:
    """The resources of a cluster."""

    nodes: tuple[Mapping[str, float], ...]
    """Those of each node that is up."""
    free: Mapping[str, float]
    """What is free now, on all nodes together."""
    addable: tuple[NodeGroup, ...] | None
    """None if the autoscaler cannot be seen."""

    def describe(self, resources: Resources) -> str:
        """Return what a stage needs, what is free and what the autoscaler may add, as text."""
        needs = "; ".join(self._need(name, asked) for name, asked in _asked_of(resources).items())
        slots = _slots(self.free, resources)
        count = f"{len(self.nodes)} node" + "s" * (len(self.nodes) != 1)
        return f"Cluster of {count}, free for up to {slots} stage{'s' * (slots != 1)} now. A stage {needs}"

    def check(self, resources: Resources) -> None:
        """Raise ResourceError if a stage fits on no node, now or later: it would wait forever."""
        if self.addable is None or any(_slots(node, resources) for node in self.nodes):
            return
        if any(group.count > 0 and _slots(group.resources, resources) for group in self.addable):
            return
        kinds = [group.resources for group in self.addable if group.count > 0]
        asked = _asked_of(resources)
        may_come = f"the autoscaler may add nodes of {_or(kinds, asked)}" if kinds else "no autoscaler adds any"
        raise ResourceError(
            f"a stage asks for {_amounts(asked)} on one node; the cluster has nodes of {_or(list(self.nodes), asked)}, "
            f"and {may_come}. Lower resources.cpus or resources.gpus, or give the cluster larger nodes"
        )

    def _need(self, name: str, asked: float) -> str:
        free = self.free.get(name, 0.0)
        if self.addable is None:
            more = "it is not known what an autoscaler may add"
        else:
            coming = sum(group.resources.get(name, 0.0) * group.count for group in self.addable)
            more = f"autoscaler may add {coming:g}" if coming else "no autoscaler adds any"
        return f"needs {asked:g} {name}, {free:g} free, {more}"


def _asked_of(resources: Resources) -> dict[str, float]:
    """Return what one stage reserves on its node."""
    return {name: value for name, value in (("CPU", resources.cpus), ("GPU", resources.gpus)) if value > 0}


def addable(config: Mapping[str, Any], nodes: int) -> tuple[NodeGroup, ...]:
    """Return the workers that an autoscaler may still add.

    Args:
        config: The configuration of the autoscaler.
        nodes: How many nodes are up, including the head. Ray does not tell their kinds, so they only count against
            the limit on all workers.
    """
    kinds = config.get("available_node_types") or {}
    left = int(config.get("max_workers", 2)) - (nodes - 1)
    return tuple(
        NodeGroup(kind["resources"], max(0, min(int(kind.get("max_workers", config.get("max_workers", 2))), left)))
        for name, kind in kinds.items()
        if name != config.get("head_node_type")
    )


def _slots(node: Mapping[str, float], resources: Resources) -> int:
    """Return how many stages fit, allowing for the rounding of Ray's fractions."""
    return min(math.floor(node.get(name, 0.0) / asked + 1e-4) for name, asked in _asked_of(resources).items())


def _amounts(resources: Mapping[str, float]) -> str:
    return " and ".join(f"{value:g} {name}" for name, value in resources.items())


def _or(nodes: list[Mapping[str, float]], names: Mapping[str, float]) -> str:
    return " or ".join(sorted({_amounts({name: node.get(name, 0.0) for name in names}) for node in nodes}))


_CLUSTER_SECONDS = 120.0
"""How long a node may take to answer. Its first worker has to import this package."""


def _check_cluster(resources: Resources, ground: Ground) -> str:
    """Return what stages need and what the cluster has; raises ResourceError if stages could not run on it."""
    room = _room()
    room.check(resources)
    _check_nodes(ground)
    return room.describe(resources)


def _room() -> Room:
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    seen = ray.remote(_autoscaler_config).options(num_cpus=0, resources=ON_HEAD)
    config = ray.get(seen.remote(ray.get_runtime_context().gcs_address), timeout=_CLUSTER_SECONDS)
    return Room(
        nodes=tuple(node["Resources"] for node in nodes),
        free=ray.available_resources(),  # type: ignore[no-untyped-call]
        addable=None if config is None else addable(config, len(nodes)),
    )


def _autoscaler_config(gcs_address: str) -> dict[str, Any] | None:
    """Return the configuration of the autoscaler process; {} if it has none. Runs on the head node.

    Ray has no public call for it. The result is None if there is no such process: then another program may add nodes,
    as with KubeRay.
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


def _check_nodes(ground: Ground) -> None:
    """Check that every node has the driver's packages and can read and write its store."""
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
        raise ResourceError("these nodes of the cluster do not match the driver:\n" + "\n".join(lines))


def _answer(ground: Ground, identity: str, answer: Any) -> list[str]:  # noqa: ANN401 - an object ref
    try:
        problems: list[str] = ray.get(answer, timeout=_CLUSTER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        return [f"no answer within {_CLUSTER_SECONDS:g} seconds: check with 'ray status' whether it is up"]
    except ray.exceptions.RayError as error:
        return [f"a task cannot run there: is tune_tickets installed on it? ({str(error).strip().splitlines()[-1]})"]
    if not problems and not has_written(ground, identity):
        return [f"the driver does not see what it writes to the store {ground.store_url}: they do not share the store"]
    return problems


_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # our own progress lines say why a trial failed
    # Reports of single stages have no objective.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # A thread that outlives the session must not start a new one.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # The driver handles Ctrl-C itself.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # Statistics for a dashboard that a local session does not have.
    "REPORTER_UPDATE_INTERVAL_MS": "60000",
}
FOLDER_VARIABLE = "TUNE_TICKETS_RAY_DIR"
"""Environment variable: a folder with a short path for Ray's session files, instead of the default."""
_OBJECT_STORE_BYTES = 256 * 1024 * 1024
"""Small, because stages exchange results through the stage store."""
_UNWATCHED = {"task_events_report_interval_ms": 0, "enable_metrics_collection": False}
"""Only a dashboard reads these records of every call and metric, and they take time from the stages."""
_ALLOCATOR = "GLIBC_TUNABLES"
_KEEP_MEMORY = f"glibc.malloc.mmap_threshold={128 << 20}:glibc.malloc.trim_threshold={4 << 30}"
"""Keep freed memory for the next training step: memory from the system costs a page fault per page."""

_OURS = "TUNE_TICKETS_"
_NOT_SHARED = frozenset({FOLDER_VARIABLE})


@contextmanager
def ray_session(resources: Resources, store_url: str) -> Iterator[str | None]:
    """Open a Ray session for one experiment. At the end a local session is shut down, a cluster is only left.

    Args:
        resources: The resources of a stage, and the address of the cluster if there is one.
        store_url: The stage store, which all nodes must share.

    Yields:
        A sentence about the free resources of a cluster; None for a local session.

    Raises:
        ResourceError: Ray does not start, no cluster answers, or stages could not run there.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in _QUIET.items()})
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with common_ground(store_url) if resources.address else nullcontext() as ground:
        _join(resources, _environment(ground))
        try:
            if ground is None:
                _check_resources(resources)
            yield None if ground is None else _check_cluster(resources, ground)
        finally:
            ray.shutdown()


def _environment(ground: Ground | None) -> dict[str, Any]:
    """Return the runtime environment of workers: our variables, the offline switch and the memory settings."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(_OURS) and name not in _NOT_SHARED}
    offline = offline_environment() if is_offline() else {}
    memory = {_ALLOCATOR: os.environ.get(_ALLOCATOR, _KEEP_MEMORY)}
    return {"env_vars": ours | offline | memory | (ground.environment() if ground else {})}


def _join(resources: Resources, environment: dict[str, Any]) -> None:
    if resources.address and resources.address.startswith("ray://"):
        raise ResourceError(
            f"resources.address={resources.address!r}: a search cannot run through a Ray client. "
            "Run it on the cluster, with 'ray job submit', or on the head node with the address 'auto'"
        )
    if ray.is_initialized():
        raise ResourceError(
            "Ray is already running in this process, but a search needs its own session: "
            "call ray.shutdown() first, or run the search in another process"
        )
    try:
        if resources.address:
            _check_address(resources.address)
        ray.init(
            address=resources.address or "local",
            runtime_env=environment,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if resources.address else _local_options()),
        )
    except ConnectionError as error:
        raise ResourceError(
            f"no Ray cluster answers at resources.address={resources.address!r} ({error}). "
            "Start one with 'ray start --head', or set resources.address to null for a local session"
        ) from None
    except ResourceError:
        raise
    except Exception as error:  # Ray has no error type for a node that does not start, or for another version
        where = f"join the cluster at {resources.address}" if resources.address else "start on this machine"
        raise ResourceError(f"Ray could not {where}: {error} Finished work is kept; try again") from error


def alive_nodes() -> int:
    """Return how many nodes the cluster has now."""
    return sum(bool(node["Alive"]) for node in ray.nodes()) if ray.is_initialized() else 0  # type: ignore[no-untyped-call]


def _local_options() -> dict[str, Any]:
    options: dict[str, Any] = {
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "_system_config": _UNWATCHED,
    }
    if folder := os.environ.get(FOLDER_VARIABLE):
        options["_temp_dir"] = folder
    return options


def _check_resources(resources: Resources) -> None:
    """Check that one stage fits on this machine: a local session cannot grow."""
    for name, asked in (("CPU", resources.cpus), ("GPU", resources.gpus)):
        present = float(ray.cluster_resources().get(name, 0.0))  # type: ignore[no-untyped-call]
        if asked > present:
            raise ResourceError(
                f"resources.{name.lower()}s asks for {asked:g} per stage, this machine has {present:g}. "
                f"Lower it, for example with the override resources.{name.lower()}s={present:g}"
            )
