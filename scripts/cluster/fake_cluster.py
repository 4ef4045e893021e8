"""A real Ray cluster on one machine, whose autoscaler adds and removes nodes with simulated GPUs.

Ray's fake node provider starts a raylet for every node. All its processes have a tag in their environment, and only
processes with this tag are ever stopped. Ray reads the token of the cluster at import, so import it after `join`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

TAG = "TUNE_TICKETS_FAKE_CLUSTER"
_PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
_NODE = "RAY_OVERRIDE_NODE_ID_FOR_TESTING"


class FakeCluster:
    """A context manager: a head without CPUs, and up to `most` workers with one CPU and one simulated GPU each."""

    def __init__(self, folder: Path, most: int, idle_seconds: float) -> None:
        self._folder, self._tag = folder, uuid.uuid4().hex
        host, port = _own_address(), _free_port()
        self.address = f"{host}:{port}"
        self.environment = os.environ | {
            TAG: self._tag,
            "RAY_FAKE_CLUSTER": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": uuid.uuid4().hex,
            "RAY_USAGE_STATS_ENABLED": "0",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "10",
        }
        config = folder / "autoscaler.json"  # JSON is YAML
        config.write_text(json.dumps(_config(self.address, most, idle_seconds)), encoding="utf-8")
        self._command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        self._command += [f"--port={port}", f"--node-ip-address={host}", f"--temp-dir={folder}", "--num-cpus=0"]
        self._command += ["--num-gpus=0", "--include-dashboard=false", "--dashboard-agent-listen-port=0"]
        self._command += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=100000000"]
        self._command += [f"--autoscaling-config={config}"]

    def __enter__(self) -> Self:
        with (self._folder / "head.log").open("w") as log:
            self._head = subprocess.Popen(self._command, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._head.send_signal(signal.SIGTERM)
        try:
            self._head.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._head.kill()
        deadline = time.monotonic() + 20
        while (left := list(self._own())) and time.monotonic() < deadline:
            for process in left:
                process.kill()
            time.sleep(0.2)

    def wait(self, seconds: float = 120.0) -> None:
        """Wait until the head runs and its autoscaler has accepted the configuration."""
        log, deadline = self._folder / "head.log", time.monotonic() + seconds
        while "Ray runtime started" not in log.read_text():
            if self._head.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.2)
        time.sleep(2.0)
        if self._head.poll() is not None or "exited unexpectedly" in log.read_text():
            raise RuntimeError(log.read_text())

    def join(self) -> None:
        """Set the environment that this process needs to connect to the cluster."""
        os.environ.update(self.environment)

    def computing(self) -> dict[int, str]:
        """Return raylet -> node for the workers that are computing a stage."""
        found = {}
        for process in self._own():
            try:
                if process.cmdline()[0].startswith("ray::compute") and (raylet := process.parent()) is not None:
                    found[raylet.pid] = process.environ().get(_NODE, "")
            except (psutil.Error, IndexError):
                continue
        return found

    def kill_node(self, raylet: int) -> None:
        """Kill a raylet of this cluster, as if its machine was lost."""
        if raylet not in {process.pid for process in self._own()}:
            raise ValueError(f"process {raylet} does not belong to this cluster")
        os.kill(raylet, signal.SIGKILL)

    def _own(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                if process.environ().get(TAG) == self._tag:
                    yield process
            except psutil.Error:
                continue


def _config(address: str, most: int, idle_seconds: float) -> dict[str, Any]:
    return {
        "cluster_name": "fake",
        "max_workers": most,
        "upscaling_speed": 100,
        "idle_timeout_minutes": idle_seconds / 60,
        "provider": {
            "type": "external",
            "module": _PROVIDER,
            "gcs_address": address,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "gpu": {
                "resources": {"CPU": 1, "GPU": 1, "object_store_memory": 100_000_000},
                "node_config": {},
                "min_workers": 0,
                "max_workers": most,
            },
        },
        "head_node_type": "ray.head.default",
        # Keys that `ray up` would add.
        "auth": {},
        **{key: {} for key in ("docker", "file_mounts")},
        **{key: [] for key in ("cluster_synced_files", "initialization_commands", "setup_commands")},
        **{f"{who}_{what}": [] for who in ("head", "worker") for what in ("setup_commands", "start_ray_commands")},
    }


def _own_address() -> str:
    """Return the address of the default network interface. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
