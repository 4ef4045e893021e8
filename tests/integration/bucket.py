"""A bucket on this machine: moto's S3 server in a separate process, used through the real s3fs."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "tickets"
KEYS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def bucket_server(log: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The server with one empty bucket, for as long as the block lasts; gives the variables that lead to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = KEYS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment | KEYS)
    try:
        _wait(server, port, log)
        client(found).create_bucket(Bucket=NAME)
        yield found
    finally:
        server.kill()
        server.wait()


def client(found: dict[str, str]):
    """Another client that reads and writes there without our code."""
    import boto3

    names = {"aws_access_key_id": found["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": found["AWS_SECRET_ACCESS_KEY"]}
    return boto3.client("s3", endpoint_url=found["AWS_ENDPOINT_URL"], region_name=found["AWS_DEFAULT_REGION"], **names)


def _wait(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"moto's server does not answer:\n{log.read_text()}")


@contextmanager
def leading_to(found: dict[str, str]) -> Iterator[None]:
    """This process finds the bucket too."""
    from s3fs import S3FileSystem

    before = dict(os.environ)
    os.environ.update(found)
    S3FileSystem.clear_instance_cache()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        S3FileSystem.clear_instance_cache()  # it remembers the server, and does not survive a fork
