"""One file over http: checked before it appears under its name, continued if it broke off."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tune_tickets.errors import ResourceError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and, if known, the bytes in all."""

_CHUNK = 2**18
_SECONDS = 30.0


def unheard(done: int, total: int | None) -> None:
    """Progress nobody asked for."""


def download(url: str, target: Path, sha256: str | None, progress: Progress = unheard) -> None:
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
    os.replace(part, target)


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
