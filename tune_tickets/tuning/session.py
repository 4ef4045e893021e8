"""Starting or joining Ray, with workers that cannot touch the driver's databases."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray

from tune_tickets.config.resources import Resources
from tune_tickets.errors import ResourceError
from tune_tickets.offline import is_offline, offline_environment
from tune_tickets.trial import guard
from tune_tickets.trial.ground import Ground, common_ground
from tune_tickets.tuning.address import check_address
from tune_tickets.tuning.cluster import check_cluster

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
_NOT_SHARED = frozenset({FOLDER_VARIABLE, guard.ENVIRONMENT})


@contextmanager
def ray_session(resources: Resources, databases: list[Path], store_url: str) -> Iterator[str | None]:
    """A Ray session for one experiment; a local one is shut down at the end, a cluster is only left.

    Hands over what a cluster has to say of its room for stages.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in _QUIET.items()})
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with common_ground(store_url) if resources.address else nullcontext() as ground:
        _join(resources, _environment(databases, ground))
        try:
            if ground is None:
                _check_resources(resources)
            yield None if ground is None else check_cluster(resources, ground)
        finally:
            ray.shutdown()


def _environment(databases: list[Path], ground: Ground | None) -> dict[str, Any]:
    """What workers are told, wherever they run: our own variables, to stay off the network, what is the driver's, and
    how to handle memory."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(_OURS) and name not in _NOT_SHARED}
    offline = offline_environment() if is_offline() else {}
    guarded = {guard.ENVIRONMENT: os.pathsep.join(str(path) for path in databases)}
    memory = {_ALLOCATOR: os.environ.get(_ALLOCATOR, _KEEP_MEMORY)}
    return {
        "env_vars": ours | offline | guarded | memory | (ground.environment() if ground else {}),
        "worker_process_setup_hook": "tune_tickets.trial.guard.install",
    }


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
