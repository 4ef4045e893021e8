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
"""Holds the driver's ground, in workers of a cluster only."""
_PACKAGES = ("torch", "transformers", "tokenizers", "textattack")
_TOKEN = "token"
NODES = "nodes"
"""In the store: a folder for every driver, with its token and what nodes have left there."""


@dataclass(frozen=True)
class Ground:
    """What the driver stands on; `token` names a folder in the store that only a node with the same store can see."""

    packages: Mapping[str, str]
    store_url: str
    token: str

    def environment(self) -> dict[str, str]:
        """The variable that tells it to workers."""
        return {ENVIRONMENT: json.dumps(asdict(self))}


@contextmanager
def common_ground(store_url: str) -> Iterator[Ground]:
    """The driver's ground, with its token in the store for as long as the block lasts."""
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
    """What sets this node apart from the driver, in words; leaves a file called `name` beside the token."""
    return [*_package_problems(ground.packages), *_store_problems(ground, name)]


def has_written(ground: Ground, name: str) -> bool:
    """Whether the file that a node left is seen from here too."""
    files, folder = _folder(ground)
    return bool(files.exists(f"{folder}/{name}"))


@cache
def check_node() -> None:
    """Refuse to compute on a node that differs from the driver; looked at once per process."""
    told = os.environ.get(ENVIRONMENT)
    if told and (problems := problems_here(Ground(**json.loads(told)), f"{socket.gethostname()}-{os.getpid()}")):
        raise ResourceError(f"node {socket.gethostname()} cannot take part: {'; '.join(problems)}")


def packages_here() -> dict[str, str]:
    """Versions that figures depend on; of our own package, the code itself."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found | {"tune_tickets": f"{tune_tickets.__version__} ({_code_digest()[:12]})"}


def _code_digest() -> str:
    """Tells two trees of one version number apart."""
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
            return [f"the store {ground.store_url} shows something else there than here: {shared}"]
    except (OSError, StoreError) as error:
        return [f"the store {ground.store_url} cannot be read there ({type(error).__name__}: {error}): {shared}"]
    try:
        files.pipe_file(f"{folder}/{name}", name.encode())
    except OSError as error:
        return [f"the store {ground.store_url} cannot be written there ({error}): give that node the right to"]
    return []


def _folder(ground: Ground) -> tuple[fsspec.AbstractFileSystem, str]:
    files, root = open_place(ground.store_url)
    return files, f"{root}/{NODES}/{ground.token}"
