"""Bringing resources: whole or not at all, with a sha256 that is known or, from the first download on, written down."""

import hashlib
import http.client
import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from tune_tickets.attacks.contents import content_digest
from tune_tickets.attacks.resolver import Found, found_at, hub_id
from tune_tickets.attacks.resource_table import Resource
from tune_tickets.errors import ResourceError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and, if known, the bytes in all."""

_SUMS = "checksums.json"
_CHUNK = 2**18
_SECONDS = 30.0
_HUB_FILES = ("config.json", "model.safetensors", "tokenizer*.json", "special_tokens_map.json", "vocab.*", "merges.txt")


def fetch(resource: Resource, folder: Path, progress: Progress = lambda done, total: None) -> Found:
    """Bring a resource into a folder of resources; one that is there and unchanged is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".fetching"):
        kept = kept_in(resource, folder)
        if kept is not None:
            return kept
        if resource.hub is not None:
            _from_hub(resource, folder / resource.folder)
        elif resource.url is not None:
            _from_url(resource, folder, progress)
        found = _found_in(resource, folder)
        if found is None:
            raise ResourceError(f"what was fetched as the {resource.name} does not hold {resource.form}")
        _write_sum(folder, resource, found)
        return found


def kept_in(resource: Resource, folder: Path) -> Found | None:
    """The resource in a folder of resources, unless it has changed since it was fetched."""
    found = _found_in(resource, folder)
    if found is None:
        return None
    recorded = _sums(folder).get(resource.option)
    return found if recorded in (None, content_digest(found.path, found.members)) else None


def copy(found: Found, resource: Resource, folder: Path) -> Found:
    """Put a resource that is elsewhere on this machine into a folder of resources."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".fetching"):
        kept = kept_in(resource, folder)
        if kept is not None and kept.identity == found.identity:
            return kept
        target = folder / (resource.folder if found.path.is_dir() else resource.file)
        making = folder / f".copying-{resource.option}"
        if found.path.is_dir():
            shutil.rmtree(making, ignore_errors=True)
            for member in found.members:
                (making / member).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found.path / member, making / member)
            shutil.rmtree(target, ignore_errors=True)
        else:
            shutil.copyfile(found.path, making)
        os.replace(making, target)
        copied = found_at(resource, target, str(folder))
        assert copied is not None
        _write_sum(folder, resource, copied)
        return copied


def download(url: str, target: Path, sha256: str | None, progress: Progress) -> str:
    """Fetch a file and return its sha256; a broken-off download of a known sum goes on where it ended."""
    part = target.with_name(f"{target.name}.part")
    if sha256 is None:  # whether the rest would belong to the same file could not be known
        part.unlink(missing_ok=True)
    try:
        _receive(url, part, progress)
    except (OSError, http.client.HTTPException) as error:
        raise ResourceError(f"{url} cannot be fetched ({error})") from None
    with part.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 is not None and digest != sha256:
        part.unlink()
        raise ResourceError(
            f"{url} has sha256 {digest} where {sha256} was expected: it was changed on its way or there"
        )
    os.replace(part, target)
    return digest


def _receive(url: str, part: Path, progress: Progress) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # all of it is here; the sum will tell
    with response:
        start = start if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        done = start
        with part.open("ab" if start else "wb") as stream:
            while chunk := response.read(_CHUNK):
                stream.write(chunk)
                done += len(chunk)
                progress(done, total)
    if total is not None and done < total:
        raise OSError(f"the connection ended after {done} of {total} bytes; run it again")


def _from_url(resource: Resource, folder: Path, progress: Progress) -> None:
    assert resource.url is not None
    archive = folder / resource.file
    download(resource.url, archive, resource.sha256, progress)
    if archive.name.endswith(".tar.gz"):
        making = folder / f".unpacking-{resource.option}"
        shutil.rmtree(making, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(making, filter="data")  # refuses paths that lead outside
        shutil.rmtree(folder / resource.folder, ignore_errors=True)
        os.replace(making, folder / resource.folder)
        archive.unlink()


def _from_hub(resource: Resource, target: Path) -> None:
    from huggingface_hub import snapshot_download

    name = hub_id(resource)
    assert name is not None
    making = target.with_name(f".fetching-{target.name}")
    try:
        snapshot_download(name, local_dir=making, allow_patterns=list(_HUB_FILES))
    except (OSError, ValueError) as error:
        raise ResourceError(f"the hub model {name} cannot be fetched ({str(error).splitlines()[0]})") from None
    shutil.rmtree(making / ".cache", ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(making, target)


def _found_in(resource: Resource, folder: Path) -> Found | None:
    places = (folder / resource.folder, folder / resource.file)
    return next((found for path in places if (found := found_at(resource, path, "cache")) is not None), None)


def _sums(folder: Path) -> dict[str, str]:
    try:
        content = json.loads((folder / _SUMS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_sum(folder: Path, resource: Resource, found: Found) -> None:
    sums = {**_sums(folder), resource.option: content_digest(found.path, found.members)}
    temporary = folder / f".{_SUMS}"
    temporary.write_text(json.dumps(sums, indent=1, sort_keys=True), encoding="utf-8")
    temporary.replace(folder / _SUMS)
