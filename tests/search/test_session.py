"""What a session passes to its workers, and which addresses it refuses."""

import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import ray

from tune_tickets.config.search import Resources
from tune_tickets.engine.node import ENVIRONMENT, Ground
from tune_tickets.errors import ResourceError
from tune_tickets.search.session import _environment, ray_session


def test_workers_are_told_our_variables_but_not_where_ray_keeps_its_files(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_TICKETS_TAGGER", "/shared/tagger")
    monkeypatch.setenv("TUNE_TICKETS_RAY_DIR", "/tmp/mine")
    monkeypatch.setenv("TUNE_TICKETS_OFFLINE", "yes")
    monkeypatch.setenv("HF_TOKEN", "secret")
    told = _environment(Ground({}, "s3://bucket/store", "token"))["env_vars"]
    assert told["TUNE_TICKETS_TAGGER"] == "/shared/tagger"
    assert told["TUNE_TICKETS_OFFLINE"] == told["HF_HUB_OFFLINE"] == "1"
    assert "s3://bucket/store" in told[ENVIRONMENT]
    assert not {"TUNE_TICKETS_RAY_DIR", "HF_TOKEN", "PATH"} & set(told)
    assert ENVIRONMENT not in _environment(None)["env_vars"]


STEPS = """
import resource, torch
def step():
    torch.zeros(20_000_000).add_(1.0)  # 80 MB, allocated and freed
for _ in range(20):  # until the heap has found its size
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of another C library")
def test_what_a_step_frees_serves_the_next_step_of_a_worker(monkeypatch):
    def faults(**variables: str) -> int:
        told = {**os.environ, **variables}
        return int(subprocess.run([sys.executable, "-c", STEPS], env=told, capture_output=True, check=True).stdout)

    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    told = _environment(None)["env_vars"]
    assert faults(GLIBC_TUNABLES=told["GLIBC_TUNABLES"]) < 0.01 * faults()


def test_who_has_chosen_how_memory_is_handled_keeps_it(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    assert _environment(None)["env_vars"]["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=2"


def test_a_ray_client_is_refused_with_the_way_to_go(tmp_path):
    refused = pytest.raises(ResourceError, match=r"cannot run through a Ray client.*ray job submit")
    with refused, ray_session(Resources(address="ray://head:10001"), str(tmp_path)):
        pass
    assert not list((tmp_path / "nodes").iterdir())


@pytest.fixture
def dashboard() -> Iterator[str]:
    """Somebody who listens, but speaks HTTP/1.1."""
    with socket.create_server(("", 0)) as server:

        def answer() -> None:
            while True:
                stream, _ = server.accept()
                with stream:
                    stream.recv(100)
                    stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nobody", "no Ray cluster answers at resources.address=.*refused"),
        ("dashboard", "no Ray cluster answers at .*'ray status' .*port of a Ray head is 6379"),
        ("no-such-host.invalid:6379", "no Ray cluster answers at .*no-such-host"),
        ("head", "resources.address='head' is not an address: give host:port"),
    ],
)
def test_an_address_where_no_ray_cluster_answers_is_refused_at_once(address, said, tmp_path, request):
    where = request.getfixturevalue(address) if address in ("nobody", "dashboard") else address
    began = time.monotonic()
    with pytest.raises(ResourceError, match=said), ray_session(Resources(address=where), str(tmp_path)):
        pass
    assert time.monotonic() - began < 60


def test_a_session_that_ray_cannot_start_is_an_error_with_a_way_on(monkeypatch, tmp_path):
    def init(**options: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)
    said = r"Ray could not start on this machine: .*timed out during startup\. Finished work is kept; try again"
    with pytest.raises(ResourceError, match=said), ray_session(Resources(), str(tmp_path)):
        pass
