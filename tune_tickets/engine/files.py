"""Files on any file system fsspec knows: written whole or not at all, moved, listed, hashed."""

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import IO, Any, Self

import fsspec
import xxhash

from tune_tickets.errors import StoreError
from tune_tickets.files import sync_folder, write_atomic

_PART_BYTES = 1024 * 1024
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""What to install for which kind of bucket."""
Content = bytes | Callable[[IO[bytes]], object]
"""What a file is to hold, or what writes that to a stream."""


def open_place(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of a folder or URL, and the place there."""
    try:
        # Other machines write there too: what a listing said a moment ago is not to be remembered.
        files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:  # what reads it is not installed, or nothing can
        extra = _EXTRAS.get(url.split(":")[0])
        todo = f"pip install 'tune_tickets[{extra}]'" if extra else "Name a folder or a bucket with --store"
        raise StoreError(f"the store {url} cannot be opened: {error}. {todo}") from None
    return files, str(root)


@contextmanager
def _writing_over(path: str) -> Iterator[IO[bytes]]:
    """A stream that goes over what a local file holds, all on disk at the end.

    Memory and room on disk that the file has already cost a tenth of what new ones do.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    new = not os.path.exists(path)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as stream:
        yield stream
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())
    if new:
        sync_folder(folder)
        sync_folder(os.path.dirname(folder))


class _Hashing:
    """A stream that knows the checksum of what went through it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.checksum = xxhash.xxh3_128()

    def write(self, part: bytes) -> int:
        self.checksum.update(part)
        return self._stream.write(part)

    def flush(self) -> None:
        self._stream.flush()


class Files:
    """A folder, local or remote."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._fs, self.root = open_place(url)
        """The folder as its file system names it."""
        self.local = "file" in self._protocols()
        """Whether it is on a file system of the machine, its own or one it shares, and not in a bucket."""

    def answering(self, writing: bool = False) -> Self:
        """Itself, if it is a folder or a bucket that answers; else `StoreError` says why not."""
        if self.local:
            return self
        probe = f"{self.root}/probe-{uuid.uuid4().hex}"
        try:
            if writing:
                self.write(probe, b"")
            self.read_path(probe)
            self.remove(probe)
        except Exception as error:  # every kind of bucket has errors of its own
            raise StoreError(
                f"the store {self.url} {'cannot be written' if writing else 'does not answer'} "
                f"({type(error).__name__}: {error}). Check its address, your credentials and your rights there, or "
                "choose another with --store"
            ) from error
        return self

    def read_path(self, path: str) -> bytes | None:
        """The bytes at a path, or None."""
        try:
            # In one request: a bucket looks at an opened file first, and refuses to read it once it was written anew.
            return bytes(self._fs.cat_file(path))
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Write atomically: readers see the old content or the new, never a part, also after a loss of power."""
        if self.local:
            write_atomic(path, content, private=True)
        else:
            self._fs.pipe_file(path, content)  # object stores put whole objects

    def fill(self, path: str, content: Content) -> str:
        """Write a file over what is there, piece by piece and without a copy of it in memory; gives its checksum.

        It may be there in part if writing it fails: name it elsewhere only after it is whole.
        """
        with _writing_over(path) if self.local else self._fs.open(path, "wb") as stream:
            hashing = _Hashing(stream)
            hashing.write(content) if isinstance(content, bytes) else content(hashing)  # type: ignore[arg-type]
        return hashing.checksum.hexdigest()

    def remove(self, path: str) -> None:
        """Delete a file or folder, if it is there."""
        if self._fs.exists(path):
            self._fs.rm(path, recursive=True)

    def move(self, source: str, target: str) -> None:
        """Move a file or folder, if it is there; another process may be faster."""
        with suppress(FileNotFoundError):
            if self._fs.isdir(source):
                for path in self._fs.find(source):
                    self.move(path, target + path.removeprefix(source))
                self.remove(source)
            else:
                self._fs.makedirs(os.path.dirname(target), exist_ok=True)
                self._fs.mv(source, target)

    def files(self) -> dict[str, int]:
        """All files of the store with their sizes, by the path below its root."""
        self._fs.invalidate_cache()
        found = self._fs.find(self.root, detail=True)
        return {path.removeprefix(self.root).lstrip("/"): int(info["size"] or 0) for path, info in found.items()}

    def modified(self, path: str) -> float:
        """When a file was written, in seconds since 1970."""
        found: datetime = self._fs.modified(path)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def sha256(self, path: str) -> str | None:
        """The sha256 of a file, however large; None if it is not there."""
        return self._hashed(path, hashlib.sha256())

    def checksum(self, path: str) -> str | None:
        """The checksum of a file as `fill` gives it; None if it is not there."""
        return self._hashed(path, xxhash.xxh3_128())

    def _hashed(self, path: str, hashed: "hashlib._Hash | xxhash.xxh3_128") -> str | None:
        try:
            with self._fs.open(path, "rb") as stream:
                while part := stream.read(_PART_BYTES):
                    hashed.update(part)
        except FileNotFoundError:
            return None
        return hashed.hexdigest()

    def read_json(self, path: str) -> Any:  # noqa: ANN401 - whatever was written
        """What was written at a path, or None."""
        content = self.read_path(path)
        if content is None:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise StoreError(f"{path} is not readable as JSON") from None

    def _protocols(self) -> tuple[str, ...]:
        protocol = self._fs.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)
