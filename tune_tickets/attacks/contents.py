"""Reading a resource whatever it is packed in, and the digest of what is read, which packing does not change."""

import gzip
import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from tune_tickets.attacks.resources import cache_folder

Members = tuple[str, ...]
WHOLE: Members = ("",)
"""Stands for a plain file, which is read as it is."""

_DIGESTS = "digests.json"
_GZIP = b"\x1f\x8b"


def complete(path: Path, alternatives: Sequence[Members]) -> Members | None:
    """The files to read from a folder, archive or plain file: of the first alternative that is there as a whole."""
    if path.is_file() and not zipfile.is_zipfile(path):
        return WHOLE if not alternatives or any(len(members) == 1 for members in alternatives) else None
    for members in alternatives:
        if not missing(path, members):
            return members
    return None


def missing(path: Path, members: Members) -> list[str]:
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


def content_digest(path: Path, members: Members) -> str:
    """sha256 over the files read, in order; of a single file, the sha256 of its unpacked content.

    Big files are not read again while their sizes and times stay the same.
    """
    return _digest(path, members, _state(path, members))


def _inside(archive: zipfile.ZipFile, member: str) -> str | None:
    # NLTK's packages hold one folder of their own name.
    return next((name for name in archive.namelist() if name == member or name.endswith(f"/{member}")), None)


def _state(path: Path, members: Members) -> str:
    files = [path / member for member in members] if path.is_dir() else [path]
    stats = [(str(file.resolve()), (state := file.stat()).st_size, state.st_mtime_ns) for file in files]
    return json.dumps([stats, members])


@cache
def _digest(path: Path, members: Members, state: str) -> str:
    known = _known()
    key = hashlib.sha256(state.encode()).hexdigest()
    if key not in known:
        known[key] = _compute(path, members)
        _remember(known)
    return known[key]


def _compute(path: Path, members: Members) -> str:
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
