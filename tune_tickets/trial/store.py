"""The stage store: results under the digest of all they depend on, on any file system fsspec knows.

Layout: `<stage>/<digest>/` holds `stage.json` (what was hashed), `history.json` (metrics, replayed on a cache hit),
`result.json` (written last: its presence means the stage is done), the files of each attempt in a folder of its own,
and `checkpoint.json` with its files for a stage that can go on from where it was left.
"""

import hashlib
import json
import os
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec

from tune_tickets.errors import StoreError
from tune_tickets.trial.stage import Stage, StageKey, StageResult, digest_of


class Store:
    """Reads and writes stage results. Writes are atomic, reads verify digests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._local = "file" in self._protocols()

    def result(self, stage: Stage) -> StageResult | None:
        """The finished result of a stage (for its goal, if it has one), or None."""
        return self.find(stage.name, stage.digest, stage.goal_digest)

    def find(self, name: str, digest: str, goal_digest: str | None = None) -> StageResult | None:
        """The same by name and digest."""
        document = self._read_json(self._result_path(name, digest, goal_digest))
        if document is None:
            return None
        body = document["body"]
        if digest_of(body) != document["sha256"]:
            raise StoreError(
                f"{self._result_path(name, digest, goal_digest)} does not match its own digest: "
                "it was changed or damaged. Delete that folder and the stage is computed again"
            )
        key = StageKey(name, digest, body["content"], goal_digest)
        return StageResult(key, body["record"], body["files"], body["history"], body["seconds"], computed=False)

    def require(self, key: StageKey) -> StageResult:
        """The result behind a key; it must be there."""
        found = self.find(key.name, key.digest, key.goal_digest)
        if found is None:
            raise StoreError(f"the store {self.url} has no result of stage {key.name} {key.digest[:12]}")
        return found

    def begin(self, stage: Stage) -> "Attempt":
        """Start computing a stage."""
        attempt = Attempt(self, stage, uuid.uuid4().hex[:12])
        self.write(f"{self.folder(stage.name, stage.digest)}/stage.json", _dump(_describe(stage)))
        return attempt

    def history(self, name: str, digest: str) -> list[dict[str, Any]]:
        """The metrics a running stage has written so far."""
        document = self._read_json(f"{self.folder(name, digest)}/history.json")
        return [] if document is None else list(document)

    def read(self, result: StageResult, file: str) -> bytes:
        """The content of one file of a result, verified."""
        recorded = result.files[file]
        path, sha256 = recorded.rsplit("#", 1)
        content = self.read_path(f"{self.folder(result.key.name, result.key.digest)}/{path}")
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            state = "is missing" if content is None else "does not match its digest"
            raise StoreError(
                f"{self.folder(result.key.name, result.key.digest)}/{path} {state}. "
                "Delete that folder and the stage is computed again"
            )
        return content

    def seconds(self, name: str) -> list[float]:
        """How long each finished stage of a kind took."""
        paths = self._fs.glob(f"{self._root}/{name}/*/result*.json")
        return [float(self._read_json(path)["body"]["seconds"]) for path in paths]

    def save_checkpoint(self, stage: Stage, files: dict[str, bytes]) -> None:
        """Replace the checkpoint of a stage."""
        folder = self.folder(stage.name, stage.digest)
        old = self._read_json(f"{folder}/checkpoint.json")
        part = f"checkpoint-{uuid.uuid4().hex[:12]}"
        for file, content in files.items():
            self.write(f"{folder}/{part}/{file}", content)
        sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
        self.write(f"{folder}/checkpoint.json", _dump({"part": part, "files": sums}))
        if old is not None:
            self.remove(f"{folder}/{old['part']}")

    def load_checkpoint(self, stage: Stage) -> dict[str, bytes] | None:
        """The files of the last checkpoint; None if there is none or it is damaged (the stage then starts afresh)."""
        folder = self.folder(stage.name, stage.digest)
        pointer = self._read_json(f"{folder}/checkpoint.json")
        if pointer is None:
            return None
        files = {}
        for file, sha256 in pointer["files"].items():
            content = self.read_path(f"{folder}/{pointer['part']}/{file}")
            if content is None or hashlib.sha256(content).hexdigest() != sha256:
                return None
            files[file] = content
        return files

    def drop_checkpoint(self, stage: Stage) -> None:
        """Remove the checkpoint of a stage."""
        folder = self.folder(stage.name, stage.digest)
        pointer = self._read_json(f"{folder}/checkpoint.json")
        if pointer is not None:
            self.remove(f"{folder}/checkpoint.json")
            self.remove(f"{folder}/{pointer['part']}")

    def folder(self, name: str, digest: str) -> str:
        """Where a stage keeps its files."""
        return f"{self._root}/{name}/{digest}"

    def read_path(self, path: str) -> bytes | None:
        """The bytes at a path, or None."""
        try:
            with self._fs.open(path, "rb") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        """Write atomically: readers see the old content or the new, never a part."""
        if not self._local:
            self._fs.pipe_file(path, content)  # object stores put whole objects
            return
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def remove(self, path: str) -> None:
        """Delete a file or folder, if it is there."""
        if self._fs.exists(path):
            self._fs.rm(path, recursive=True)

    def _result_path(self, name: str, digest: str, goal_digest: str | None) -> str:
        suffix = "" if goal_digest is None else f"-{goal_digest[:16]}"
        return f"{self.folder(name, digest)}/result{suffix}.json"

    def _read_json(self, path: str) -> Any:  # noqa: ANN401 - whatever was written
        content = self.read_path(path)
        if content is None:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise StoreError(f"{path} is not readable as JSON. Delete it and the stage is computed again") from None

    def _protocols(self) -> tuple[str, ...]:
        protocol = self._fs.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)


@dataclass
class Attempt:
    """One try at computing a stage. Its files carry its id, so that a late twin cannot mix its files with ours."""

    store: Store
    stage: Stage
    id: str
    files: dict[str, str] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    def put(self, file: str, content: bytes) -> None:
        """Keep a file of the result."""
        path = f"attempt-{self.id}/{file}"
        self.store.write(f"{self._folder}/{path}", content)
        self.files[file] = f"{path}#{hashlib.sha256(content).hexdigest()}"

    def report(self, record: dict[str, Any]) -> None:
        """Add a record to the metric history, visible to waiting trials at once."""
        self.records.append(record)
        self.store.write(f"{self._folder}/history.json", _dump(self.records))

    def finish(self, record: dict[str, Any], seconds: float, content: str | None = None) -> StageResult:
        """Make the result visible."""
        identity = content or self.stage.digest
        body = {
            "record": record,
            "files": self.files,
            "history": self.records,
            "seconds": seconds,
            "content": identity,
            "attempt": self.id,
        }
        path = self.store._result_path(self.stage.name, self.stage.digest, self.stage.goal_digest)
        self.store.write(path, _dump({"body": body, "sha256": digest_of(body)}))
        key = StageKey(self.stage.name, self.stage.digest, identity, self.stage.goal_digest)
        return StageResult(key, record, dict(self.files), list(self.records), seconds)

    @property
    def _folder(self) -> str:
        return self.store.folder(self.stage.name, self.stage.digest)


def _describe(stage: Stage) -> dict[str, Any]:
    above = {role: {"stage": key.name, "digest": key.digest} for role, key in stage.upstream.items()}
    return {"stage": stage.name, "digest": stage.digest, "inputs": stage.inputs, "upstream": above}


def _dump(value: Any) -> bytes:  # noqa: ANN401 - anything JSON can hold
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()
