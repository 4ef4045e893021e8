"""Starting or joining Ray."""

import logging
import math
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray._private.services import canonicalize_bootstrap_address
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from ruamel.yaml import YAML

from tune_tickets.config.search import Resources
from tune_tickets.engine.client import ON_HEAD
from tune_tickets.engine.node import Ground, common_ground, has_written, problems_here
from tune_tickets.errors import ResourceError
from tune_tickets.offline import is_offline, offline_environment

_SECONDS = 10.0
_SETTINGS = 4
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
"""How HTTP/2, which Ray's head speaks, is opened: a fixed text and an empty frame of settings (RFC 9113, 3.4)."""
_FRAME_BYTES = 9


def check_address(address: str) -> None:
    """Refuse an address where nobody answers, or somebody else; 'auto' is looked up as Ray does it."""
    try:
        found = canonicalize_bootstrap_address(address)
    except ValueError:
        raise ResourceError(
            f"resources.address={address!r} is no address: give host:port, such as 10.0.0.7:6379, or 'auto' on a node "
            "of the cluster"
        ) from None
    host, _, port = (found or "").rpartition(":")
    if not port.isdecimal():
        return  # nothing to look at
    try:
        speaks = _speaks(host.strip("[]"), int(port))
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"{host}:{port}: {error}") from None
    if not speaks:
        raise ConnectionError(f"who listens at {host}:{port} is no Ray head: its port is 6379 unless set otherwise")


def _speaks(host: str, port: int) -> bool:
    with socket.create_connection((host, port), timeout=_SECONDS) as stream:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return True  # what it says is encrypted
        stream.sendall(_GREETING)
        answer = stream.recv(_FRAME_BYTES, socket.MSG_WAITALL)
        return len(answer) == _FRAME_BYTES and answer[3] == _SETTINGS


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one kind that may still come."""

    resources: Mapping[str, float]
    count: int


@dataclass(frozen=True)
class Room:
    """Total and free resources of the nodes that are up; `addable` is None where the autoscaler cannot be seen."""

    nodes: tuple[Mapping[str, float], ...]
    free: tuple[Mapping[str, float], ...]
    addable: tuple[NodeGroup, ...] | None

    def describe(self, resources: Resources) -> str:
        """What a stage needs, what is free, and what may come: what a search with waiting stages waits for."""
        needs = "; ".join(self._need(name, asked) for name, asked in asked_of(resources).items())
        slots = sum(_slots(node, resources) for node in self.free)
        count = f"{len(self.nodes)} node" + "s" * (len(self.nodes) != 1)
        return f"Cluster of {count}, free for {slots} stage{'s' * (slots != 1)} now. A stage {needs}"

    def check(self, resources: Resources) -> None:
        """A stage that fits on no node, present or to come, would wait for ever."""
        if self.addable is None or any(_slots(node, resources) for node in self.nodes):
            return
        if any(group.count > 0 and _slots(group.resources, resources) for group in self.addable):
            return
        kinds = [group.resources for group in self.addable if group.count > 0]
        asked = asked_of(resources)
        may_come = f"the autoscaler may add nodes of {_or(kinds, asked)}" if kinds else "no autoscaler adds any"
        raise ResourceError(
            f"a stage asks for {_amounts(asked)} on one node; the cluster has nodes of {_or(list(self.nodes), asked)}, "
            f"and {may_come}. Lower resources.cpus or resources.gpus, or give the cluster larger nodes"
        )

    def _need(self, name: str, asked: float) -> str:
        free = sum(node.get(name, 0.0) for node in self.free)
        if self.addable is None:
            more = "what an autoscaler may add is not known here"
        else:
            coming = sum(group.resources.get(name, 0.0) * group.count for group in self.addable)
            more = f"autoscaler may add {coming:g}" if coming else "no autoscaler adds any"
        return f"needs {asked:g} {name}, {free:g} free, {more}"


def asked_of(resources: Resources) -> dict[str, float]:
    """What one stage asks of its node."""
    return {name: value for name, value in (("CPU", resources.cpus), ("GPU", resources.gpus)) if value > 0}


def addable(config: Mapping[str, Any], nodes: int) -> tuple[NodeGroup, ...]:
    """The workers an autoscaler's configuration allows; `nodes` are up already, one of them the head.

    Which of them are of which kind Ray does not tell, so only the bound on all workers counts them.
    """
    kinds = config.get("available_node_types") or {}
    left = int(config.get("max_workers", 2)) - (nodes - 1)
    return tuple(
        NodeGroup(kind["resources"], max(0, min(int(kind.get("max_workers", config.get("max_workers", 2))), left)))
        for name, kind in kinds.items()
        if name != config.get("head_node_type")
    )


def _slots(node: Mapping[str, float], resources: Resources) -> int:
    """How many stages fit on a node; a rounding error of Ray's fractions costs none."""
    return min(math.floor(node.get(name, 0.0) / asked + 1e-4) for name, asked in asked_of(resources).items())


def _amounts(resources: Mapping[str, float]) -> str:
    return " and ".join(f"{value:g} {name}" for name, value in resources.items())


def _or(nodes: list[Mapping[str, float]], names: Mapping[str, float]) -> str:
    return " or ".join(sorted({_amounts({name: node.get(name, 0.0) for name in names}) for node in nodes}))


_CLUSTER_SECONDS = 120.0
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
    config = ray.get(seen.remote(ray.get_runtime_context().gcs_address), timeout=_CLUSTER_SECONDS)
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
        problems: list[str] = ray.get(answer, timeout=_CLUSTER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        return [f"no answer within {_SECONDS:g} seconds: see whether it is up with 'ray status'"]
    except ray.exceptions.RayError as error:
        return [f"a task cannot run there: is tune_tickets installed on it? ({str(error).strip().splitlines()[-1]})"]
    if not problems and not has_written(ground, identity):
        return [f"what it writes to the store {ground.store_url} is not seen by the driver: they do not share it"]
    return problems


_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # our own lines say why a trial failed
    # Reports of single stages carry no objective; ours is told by the searcher alone.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # A thread that outlives the session must not start another one by asking for it.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # The driver has its own way of ending on Ctrl-C.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    # Figures of processes and cores for a dashboard that a local session does not have: now and then is enough.
    "REPORTER_UPDATE_INTERVAL_MS": "60000",
}
FOLDER_VARIABLE = "TUNE_TICKETS_RAY_DIR"
"""Names a (short) folder for Ray's session files in the place of its default."""
_OBJECT_STORE_BYTES = 256 * 1024 * 1024
"""Stages hand over results through the stage store, so Ray's own needs little."""
_UNWATCHED = {"task_events_report_interval_ms": 0, "enable_metrics_collection": False}
"""Ray's own records of every call and metric: only a dashboard reads them, and they take time from the stages."""
_ALLOCATOR = "GLIBC_TUNABLES"
_KEEP_MEMORY = f"glibc.malloc.mmap_threshold={128 << 20}:glibc.malloc.trim_threshold={4 << 30}"
"""What a training step frees is kept for the next one: given back and asked for anew, every page costs a fault."""

_OURS = "TUNE_TICKETS_"
_NOT_SHARED = frozenset({FOLDER_VARIABLE})


@contextmanager
def ray_session(resources: Resources, store_url: str) -> Iterator[str | None]:
    """A Ray session for one experiment; a local one is shut down at the end, a cluster is only left.

    Hands over what a cluster has to say of its room for stages.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in _QUIET.items()})
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with common_ground(store_url) if resources.address else nullcontext() as ground:
        _join(resources, _environment(ground))
        try:
            if ground is None:
                _check_resources(resources)
            yield None if ground is None else check_cluster(resources, ground)
        finally:
            ray.shutdown()


def _environment(ground: Ground | None) -> dict[str, Any]:
    """The runtime environment of workers: our own variables, the offline switch, how to handle memory."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(_OURS) and name not in _NOT_SHARED}
    offline = offline_environment() if is_offline() else {}
    memory = {_ALLOCATOR: os.environ.get(_ALLOCATOR, _KEEP_MEMORY)}
    return {"env_vars": ours | offline | memory | (ground.environment() if ground else {})}


def _join(resources: Resources, environment: dict[str, Any]) -> None:
    if resources.address and resources.address.startswith("ray://"):
        raise ResourceError(
            f"resources.address={resources.address!r}: a search cannot be driven through a Ray client. "
            "Run it on the cluster, with 'ray job submit', or on the head node with the address 'auto'"
        )
    if ray.is_initialized():
        raise ResourceError(
            "Ray is running in this process already, and a search needs a session of its own: "
            "call ray.shutdown() first, or run the search in another process"
        )
    try:
        if resources.address:
            check_address(resources.address)
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
    except Exception as error:  # Ray has no type of its own for a node that does not start, or of another version
        where = f"join the cluster at {resources.address}" if resources.address else "start on this machine"
        raise ResourceError(f"Ray could not {where}: {error} What is finished is kept; try again") from error


def alive_nodes() -> int:
    """How many nodes the cluster has now."""
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
    """One stage must fit here; a local session cannot grow, so what is missing never comes."""
    for name, asked in (("CPU", resources.cpus), ("GPU", resources.gpus)):
        present = float(ray.cluster_resources().get(name, 0.0))  # type: ignore[no-untyped-call]
        if asked > present:
            raise ResourceError(
                f"resources.{name.lower()}s asks for {asked:g} per stage, this machine has {present:g}. "
                f"Lower it, for example with the override resources.{name.lower()}s={present:g}"
            )
