"""The atomic write. A reader sees the old content or the new content, never a part, also after a power failure."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

WRITING = ".writing-"
"""How the names of temporary files begin. A killed process leaves them behind."""


def write_atomic(path: Path | str, content: bytes | str, private: bool = False) -> None:
    """Replace a file atomically. Its folder is created if it is missing.

    Args:
        path: The file to write.
        content: Its new content; text is encoded as UTF-8.
        private: Whether only the owner may read the file (mode 0600 instead of 0644).

    Raises:
        OSError: The file cannot be written. The old content is kept and no temporary file is left.
    """
    with replacing(path, private) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path | str, private: bool = False) -> Iterator[IO[bytes]]:
    """Yield a stream. Its content replaces the file at `path` when the block ends without an error."""
    with making(path) as temporary:
        mode = 0o600 if private else 0o644
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            os.fchmod(stream.fileno(), mode)  # whatever the umask is
            yield stream


@contextmanager
def making(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path in the same folder, where the block creates a file or a folder.

    It is moved to `path` when the block ends, and removed if the block raises or if it cannot be moved.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{WRITING}{uuid.uuid4().hex[:12]}")
    try:
        yield temporary
        put_in_place(temporary, target)
    except BaseException:
        remove(temporary)
        raise


def put_in_place(made: Path, target: Path) -> None:
    """Move a finished file or folder to its final name, with its content and its name on disk when this returns."""
    for path in made.rglob("*") if made.is_dir() else ():
        if not path.is_symlink():
            _sync(path)
    _sync(made)
    os.replace(made, target)
    sync_folder(target.parent)


def sync_folder(folder: Path | str) -> None:
    """Write the names in a folder to disk. Otherwise a power failure can lose a file that was moved there."""
    _sync(folder)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path | str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
