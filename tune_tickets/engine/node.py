"""What every node of a cluster must have in common with the driver: packages, code and store."""

import hashlib
import json
import os
import platform
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fsspec

import tune_tickets
from tune_tickets.engine.files import open_place
from tune_tickets.errors import ResourceError, StoreError

ENVIRONMENT = "TUNE_TICKETS_GROUND"
"""Holds the ground of the driver as JSON. Set only in workers of a cluster."""
_PACKAGES = ("torch", "transformers", "tokenizers", "textattack")
_TOKEN = "token"
NODES = "nodes"
"""The folder of the store with a folder per driver, for its token and the files of nodes."""


@dataclass(frozen=True)
class Ground:
    """Packages and store of the driver. `token` names a folder that only a node with the same store can see."""

    packages: Mapping[str, str]
    store_url: str
    token: str

    def environment(self) -> dict[str, str]:
        """The environment variable for workers."""
        return {ENVIRONMENT: json.dumps(asdict(self))}


@contextmanager
def common_ground(store_url: str) -> Iterator[Ground]:
    """Yield the ground of the driver. Its token is in the store during the block."""
    ground = Ground(packages_here(), store_url, uuid.uuid4().hex)
    files, folder = _folder(ground)
    try:
        files.makedirs(folder, exist_ok=True)
        files.pipe_file(f"{folder}/{_TOKEN}", ground.token.encode())
    except OSError as error:
        raise StoreError(f"the store {store_url} cannot be written ({error}). Choose another with --store") from None
    try:
        yield ground
    finally:
        files.rm(folder, recursive=True)


def problems_here(ground: Ground, name: str) -> list[str]:
    """Return how this node differs from the driver, in words. Writes a file `name` next to the token."""
    return [*_package_problems(ground.packages), *_store_problems(ground, name)]


def has_written(ground: Ground, name: str) -> bool:
    """Whether the file that a node wrote is visible here."""
    files, folder = _folder(ground)
    return bool(files.exists(f"{folder}/{name}"))


@cache
def check_node() -> None:
    """Refuse to compute on a node that differs from the driver. Checked once per process.

    Raises:
        ResourceError: what differs.
    """
    told = os.environ.get(ENVIRONMENT)
    if told and (problems := problems_here(Ground(**json.loads(told)), f"{socket.gethostname()}-{os.getpid()}")):
        raise ResourceError(f"node {socket.gethostname()} cannot take part: {'; '.join(problems)}")


def packages_here() -> dict[str, str]:
    """Return the versions that results depend on; of our own package, also a digest of its code."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found | {"tune_tickets": f"{tune_tickets.__version__} ({_code_digest()[:12]})"}


def _code_digest() -> str:
    """Tells apart two source trees with the same version number."""
    root, digest = Path(tune_tickets.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def _package_problems(wanted: Mapping[str, str]) -> list[str]:
    here = packages_here()
    return [
        f"{name} is {here.get(name, 'missing')} there and {asked} with the driver: install the same on both"
        for name, asked in wanted.items()
        if here.get(name) != asked
    ]


def _store_problems(ground: Ground, name: str) -> list[str]:
    shared = "use a folder or bucket that every node shares, with --store"
    try:
        files, folder = _folder(ground)
        if files.cat_file(f"{folder}/{_TOKEN}") != ground.token.encode():
            return [f"the store {ground.store_url} has a different content there: {shared}"]
    except (OSError, StoreError) as error:
        return [f"the store {ground.store_url} cannot be read there ({type(error).__name__}: {error}): {shared}"]
    try:
        files.pipe_file(f"{folder}/{name}", name.encode())
    except OSError as error:
        return [f"the store {ground.store_url} cannot be written there ({error}): give that node write permission"]
    return []


def _folder(ground: Ground) -> tuple[fsspec.AbstractFileSystem, str]:
    files, root = open_place(ground.store_url)
    return files, f"{root}/{NODES}/{ground.token}"
