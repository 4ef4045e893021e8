"""Files on any file system that fsspec supports: atomic writes, moves, listings, checksums."""

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
"""The extra to install for each kind of bucket."""
Content = bytes | Callable[[IO[bytes]], object]
"""The content of a file, or a function that writes it to a stream."""


def open_place(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the file system of a folder or URL, and the path there."""
    try:
        # Other machines write there too, so listings must not be cached.
        files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:  # its driver is missing, or the protocol is unknown
        extra = _EXTRAS.get(url.split(":")[0])
        todo = f"pip install 'tune_tickets[{extra}]'" if extra else "Name a folder or a bucket with --store"
        raise StoreError(f"the store {url} cannot be opened: {error}. {todo}") from None
    return files, str(root)


@contextmanager
def _writing_over(path: str) -> Iterator[IO[bytes]]:
    """Yield a stream that overwrites a local file; everything is on disk at the end.

    Reusing its pages and disk blocks is ten times as fast as allocating new ones.
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
    """A stream that computes the checksum of what is written to it."""

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
        """The path of the folder on its file system."""
        self.local = "file" in self._protocols()
        """Whether it is on a mounted file system (its own or shared), not in a bucket."""

    def answering(self, writing: bool = False) -> Self:
        """Return itself if the folder or bucket can be reached.

        Raises:
            StoreError: the bucket does not answer, or cannot be written although `writing` is set.
        """
        if self.local:
            return self
        probe = f"{self.root}/probe-{uuid.uuid4().hex}"
        try:
            if writing:
                self.write(probe, b"")
            self.read_path(probe)
            self.remove(probe)
        except Exception as error:  # each kind of bucket has its own error types
            raise StoreError(
                f"the store {self.url} {'cannot be written' if writing else 'does not answer'} "
                f"({type(error).__name__}: {error}). Check its address, your credentials and your permissions, or "
                "choose another with --store"
            ) from error
        return self

    def read_path(self, path: str) -> bytes | None:
        """Return the bytes at a path, or None if there is no file."""
        try:
            # One request: an opened object cannot be read any more once it was replaced.
            return bytes(self._fs.cat_file(path))
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Write atomically: readers see the old content or the new one, also after a power failure."""
        if self.local:
            write_atomic(path, content, private=True)
        else:
            self._fs.pipe_file(path, content)  # object stores replace whole objects

    def fill(self, path: str, content: Content) -> str:
        """Overwrite a file piece by piece, without a copy in memory, and return its checksum.

        A failed write can leave a part of the file. So refer to it only after this has returned.
        """
        with _writing_over(path) if self.local else self._fs.open(path, "wb") as stream:
            hashing = _Hashing(stream)
            hashing.write(content) if isinstance(content, bytes) else content(hashing)  # type: ignore[arg-type]
        return hashing.checksum.hexdigest()

    def remove(self, path: str) -> None:
        """Delete a file or folder if it exists."""
        if self._fs.exists(path):
            self._fs.rm(path, recursive=True)

    def move(self, source: str, target: str) -> None:
        """Move a file or folder if it exists. Another process may move it first."""
        with suppress(FileNotFoundError):
            if self._fs.isdir(source):
                for path in self._fs.find(source):
                    self.move(path, target + path.removeprefix(source))
                self.remove(source)
            else:
                self._fs.makedirs(os.path.dirname(target), exist_ok=True)
                self._fs.mv(source, target)

    def files(self) -> dict[str, int]:
        """Return the sizes of all files, by their paths relative to the root."""
        self._fs.invalidate_cache()
        found = self._fs.find(self.root, detail=True)
        return {path.removeprefix(self.root).lstrip("/"): int(info["size"] or 0) for path, info in found.items()}

    def modified(self, path: str) -> float:
        """Return when a file was written, in seconds since 1970."""
        found: datetime = self._fs.modified(path)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def sha256(self, path: str) -> str | None:
        """Return the sha256 of a file, None if it does not exist."""
        return self._hashed(path, hashlib.sha256())

    def checksum(self, path: str) -> str | None:
        """Return the checksum of a file as `fill` computes it, None if it does not exist."""
        return self._hashed(path, xxhash.xxh3_128())

    def _hashed(self, path: str, hashed: "hashlib._Hash | xxhash.xxh3_128") -> str | None:
        try:
            with self._fs.open(path, "rb") as stream:
                while part := stream.read(_PART_BYTES):
                    hashed.update(part)
        except FileNotFoundError:
            return None
        return hashed.hexdigest()

    def read_json(self, path: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON document at a path, or None if there is no file."""
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
