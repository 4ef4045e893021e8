"""Bringing resources: whole or not at all, with a sha256 that is known or, from the first download on, written down."""

import hashlib
import http.client
import json
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from tune_tickets.attacks.resolver import (
    SUMS_FILE,
    Damaged,
    Found,
    content_digest,
    explain,
    hub_id,
    kept_in,
    kept_names,
    look,
    recorded_sums,
    resources_folder,
)
from tune_tickets.attacks.resource_table import SENTENCE_ENCODER, Resource
from tune_tickets.errors import ResourceError
from tune_tickets.files import making, put_in_place, remove, write_atomic

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and, if known, the bytes in all."""

_CHUNK = 2**18
_SECONDS = 30.0


def _unheard(done: int, total: int | None) -> None:
    """Progress nobody asked for."""


def download(url: str, target: Path, sha256: str | None, progress: Progress = _unheard) -> None:
    """Fetch a file; where its sum is known, a download that broke off goes on where it ended."""
    part = target.with_name(f"{target.name}.part")
    if sha256 is None:  # whether the rest belongs to the same file could not be told
        part.unlink(missing_ok=True)
    try:
        _receive(url, part, progress)
    except (OSError, http.client.HTTPException) as error:
        raise ResourceError(f"{url} cannot be fetched ({error}); what came is kept, run it again") from None
    with part.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 not in (None, digest):
        part.unlink()
        raise ResourceError(f"{url} has sha256 {digest}, expected was {sha256}: it is another file, and was not kept")
    put_in_place(part, target)


def _receive(url: str, part: Path, progress: Progress) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # nothing is left to come: the sum will tell
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            start = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        done = start
        with part.open("ab" if start else "wb") as stream:
            while chunk := response.read(_CHUNK):
                stream.write(chunk)
                done += len(chunk)
                progress(done, total)
    if total is not None and done < total:
        raise OSError(f"the connection ended after {done} of {total} bytes")


_LOCK = ".fetching"
_HUB_FILES = ("config.json", "model.safetensors", "tokenizer*.json", "special_tokens_map.json", "vocab.*", "merges.txt")


@dataclass(frozen=True)
class Brought:
    """A resource that is now where it should be, and how it came there."""

    found: Found
    how: str


def bring(resource: Resource, cache: Path | None, offline: bool, progress: Progress = _unheard) -> Brought:
    """Make sure that a resource is on this machine or, if one is named, in a cache folder to be taken along."""
    here = _undamaged(resource, None)
    if resource.name == SENTENCE_ENCODER and here is not None:
        return Brought(here, "comes with the installation")
    if cache is not None:
        kept = _undamaged(resource, resources_folder(cache))
        if kept is not None or here is None:
            here = kept
        else:
            return Brought(_copy(here, resource, resources_folder(cache)), f"copied ({here.where})")
    if here is not None:
        return Brought(here, f"is there ({here.where})")
    if offline:
        raise ResourceError(explain(resource, "the network is not touched"))
    if resource.url is None and resource.hub is None:
        raise ResourceError(explain(resource, "it cannot be fetched"))
    found = fetch(resource, resources_folder(cache), progress)
    return Brought(
        found, "fetched, sha256 as published" if resource.sha256 else "fetched, its sha256 is now written down"
    )


def fetch(resource: Resource, folder: Path, progress: Progress = _unheard) -> Found:
    """Bring a resource into a folder of resources; one that is there and unchanged is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / _LOCK):
        try:
            kept = kept_in(resource, folder)
        except Damaged as damage:
            remove(damage.path)
            kept = None
        if kept is not None:
            return kept
        if resource.hub is not None:
            _from_hub(resource, folder / kept_names(resource)[-1])
        elif resource.url is not None:
            _from_url(resource, folder, progress)
        return _kept(resource, folder)


def _undamaged(resource: Resource, folder: Path | None) -> Found | None:
    try:
        return look(resource) if folder is None else kept_in(resource, folder)
    except Damaged:
        return None


def _from_url(resource: Resource, folder: Path, progress: Progress) -> None:
    assert resource.url is not None
    archive = folder / resource.file
    download(resource.url, archive, resource.sha256, progress)
    if archive.name.endswith(".tar.gz"):
        with making(folder / resource.folder) as new, tarfile.open(archive) as tar:
            tar.extractall(new, filter="data")  # refuses paths that lead outside
        archive.unlink()


def _from_hub(resource: Resource, target: Path) -> None:
    from huggingface_hub import snapshot_download

    name = hub_id(resource)
    assert name is not None
    part = target.with_name(f".fetching-{target.name}")  # what is in it already is not fetched again
    try:
        snapshot_download(name, local_dir=part, allow_patterns=list(_HUB_FILES))
    except (OSError, ValueError) as error:
        raise ResourceError(f"the hub model {name} cannot be fetched ({str(error).splitlines()[0]})") from None
    remove(part / ".cache")
    put_in_place(part, target)


def _copy(found: Found, resource: Resource, folder: Path) -> Found:
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / _LOCK):
        names = kept_names(resource)
        with making(folder / (names[-1] if found.path.is_file() else names[0])) as new:
            _copy_members(found, resource, new)
            for name in names:
                remove(folder / name)
        return _kept(resource, folder)


def _copy_members(found: Found, resource: Resource, target: Path) -> None:
    if found.path.is_file():
        shutil.copyfile(found.path, target)
        return
    beside = [file.name for pattern in _HUB_FILES for file in found.path.glob(pattern)] if resource.hub else []
    for member in {*found.members, *beside}:
        (target / member).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found.path / member, target / member)


def _kept(resource: Resource, folder: Path) -> Found:
    """What has just been put into the folder; its sum is written down."""
    sums = {name: value for name, value in recorded_sums(folder).items() if name not in kept_names(resource)}
    _write(folder, sums)
    found = kept_in(resource, folder)
    if found is None:
        raise ResourceError(f"what was fetched as the {resource.name} does not hold {resource.form}")
    _write(folder, {**sums, found.path.name: content_digest(found.path, found.members)})
    return found


def _write(folder: Path, sums: dict[str, str]) -> None:
    write_atomic(folder / SUMS_FILE, json.dumps(sums, indent=1, sort_keys=True))
