"""The stage store: results by the digest of everything they depend on, on any file system that fsspec supports.

Layout: `<stage>/<digest>/` holds `stage.json` (the recipe, enough to compute the stage again), `history.json` (metrics,
replayed on a cache hit), `result.json` (written last: if it exists, the stage is done), one folder per attempt, and
`checkpoint.json` with the files of the last checkpoint.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from tune_tickets.engine.files import Content, Files
from tune_tickets.engine.stage import Stage, StageKey, StageResult, code_of, digest_of, kind_of_stage
from tune_tickets.errors import StoreError

RESULT, RECIPE, HISTORY, CHECKPOINT, PRUNED = "result", "stage", "history.json", "checkpoint.json", "pruned.json"
BROKERS = "brokers"
"""The folder with the state that brokers need after a restart."""


class Unreadable(StoreError):
    """A result is missing, incomplete or changed. It must be computed again."""

    def __init__(self, key: StageKey, reason: str) -> None:
        super().__init__(key, reason)
        self.key, self.reason = key, reason

    def __str__(self) -> str:
        return f"{self.reason}. Start the search again with --resume: the result is then computed again"


class Store(Files):
    """Reads and writes stage results. Writes are atomic, reads verify digests."""

    def result(self, stage: Stage) -> StageResult | None:
        """Return the finished result of a stage (for its goal, if it has one), or None."""
        return self.find(stage.name, stage.digest, stage.goal_digest)

    def find(self, name: str, digest: str, goal_digest: str | None = None) -> StageResult | None:
        """Like `result`, by name and digest.

        Raises:
            Unreadable: the result is damaged.
        """
        path = self.path(RESULT, name, digest, goal_digest)
        content = self.read_path(path)
        if content is None:
            return None
        try:
            document = json.loads(content)
            body = document["body"]
            key = StageKey(name, digest, body["content"], goal_digest)
            found = StageResult(key, body["record"], body["files"], body["history"], body["seconds"], computed=False)
            sound = digest_of(body) == document["sha256"]
        except (ValueError, KeyError, TypeError):
            raise Unreadable(StageKey(name, digest, digest, goal_digest), f"{path} is not readable") from None
        if not sound:
            raise Unreadable(found.key, f"{path} does not match its own digest: it was changed or damaged")
        return found

    def require(self, key: StageKey) -> StageResult:
        """Return the result of a key.

        Raises:
            Unreadable: it is missing or damaged.
        """
        found = self.find(key.name, key.digest, key.goal_digest)
        if found is None:
            raise Unreadable(key, f"the store {self.url} has no result of stage {key.name} {key.digest[:12]}")
        return found

    def recipe(self, key: StageKey) -> Stage | None:
        """Return the stage that computes the result of a key, or None if its recipe is missing or does not match."""
        try:
            stage, _ = self.described(self.path(RECIPE, key.name, key.digest, key.goal_digest))
            # A recipe or a code version that was changed since gives another digest.
            same = (stage.digest, stage.goal_digest) == (key.digest, key.goal_digest)
        except (StoreError, KeyError, TypeError, AttributeError):
            return None
        return stage if same else None

    def described(self, path: str) -> tuple[Stage, int | None]:
        """Return the stage that a recipe describes and its code version; the first stores did not keep the version."""
        written = self.read_json(path)
        above = {
            role: StageKey(up["stage"], up["digest"], up.get("content", up["digest"]), up.get("goal_digest"))
            for role, up in written["upstream"].items()
        }
        name, code = written["stage"], written.get("code")
        kind = kind_of_stage(name, code)
        if kind is None:
            raise StoreError(f"{path} describes a stage '{name}' that is not known here ({code or 'no class named'})")
        return kind.restored(name, written["inputs"], above, written.get("goal")), written.get("version")

    def begin(self, stage: Stage) -> "Attempt":
        """Start an attempt to compute a stage."""
        attempt = Attempt(self, stage, uuid.uuid4().hex[:12])
        self.write(self.path(RECIPE, stage.name, stage.digest, stage.goal_digest), _dump(_describe(stage)))
        return attempt

    def history(self, name: str, digest: str) -> list[dict[str, Any]]:
        """Return the metrics that a running stage has written so far. The whole file is replaced with every record."""
        try:
            document = self.read_json(f"{self.folder(name, digest)}/{HISTORY}")
        except StoreError:
            return []
        return list(document) if isinstance(document, list) else []

    def read(self, result: StageResult, file: str) -> bytes:
        """Return the content of one file of a result.

        Raises:
            Unreadable: the file is missing or does not match its digest.
        """
        path, sha256 = self.blob(result, file)
        content = self.read_path(path)
        if content is None:
            state = "was pruned" if file in self.pruned(path, file) else "is missing"
            raise Unreadable(result.key, f"{path} {state}")
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Unreadable(result.key, f"{path} does not match its digest")
        return content

    def blob(self, result: StageResult, file: str) -> tuple[str, str]:
        """Return the path of a file of a result, and its sha256."""
        path, sha256 = result.files[file].rsplit("#", 1)
        return f"{self.folder(result.key.name, result.key.digest)}/{path}", sha256

    def pruned(self, path: str, file: str) -> list[str]:
        """Return the files that `store prune` removed from the attempt that has `file` at `path`."""
        try:
            return list(self.read_json(f"{path.removesuffix(file)}{PRUNED}") or [])
        except StoreError:
            return []

    def save_checkpoint(self, stage: Stage, files: Mapping[str, Content], writer: str | None = None) -> None:
        """Replace the checkpoint of a stage.

        A `writer` that saves the same files repeatedly alternates between two folders and overwrites the older one.
        """
        folder = self.folder(stage.name, stage.digest)
        old, taken = self.checkpoint(folder), time.time()
        first, second = _places(f"checkpoint-{writer or uuid.uuid4().hex[:12]}.0")
        part = second if old is not None and old[0] == first else first
        sums = {file: self.fill(f"{folder}/{part}/{file}", content) for file, content in files.items()}
        self.write(f"{folder}/{CHECKPOINT}", _dump({"part": part, "files": sums, "taken": taken}))
        for place in _places(old[0]) if old is not None and old[0] not in (first, second) else ():
            self.remove(f"{folder}/{place}")

    def settle_checkpoint(self, stage: Stage) -> None:
        """Remove the older one of the two checkpoint folders."""
        folder = self.folder(stage.name, stage.digest)
        pointer = self.checkpoint(folder)
        for place in _places(pointer[0]) if pointer is not None else ():
            if pointer is not None and place != pointer[0]:
                self.remove(f"{folder}/{place}")

    def load_checkpoint(self, stage: Stage) -> dict[str, bytes] | None:
        """Return the files of the last checkpoint; None if there is none or if it is damaged."""
        folder = self.folder(stage.name, stage.digest)
        pointer = self.checkpoint(folder)
        if pointer is None:
            return None
        files = {}
        for file, checksum in pointer[1].items():
            content = self.read_path(f"{folder}/{pointer[0]}/{file}")
            if content is None or xxhash.xxh3_128(content).hexdigest() != checksum:
                return None
            files[file] = content
        return files

    def drop_checkpoint(self, stage: Stage) -> None:
        """Remove the checkpoint of a stage."""
        folder = self.folder(stage.name, stage.digest)
        pointer = self.checkpoint(folder)
        self.remove(f"{folder}/{CHECKPOINT}")
        for place in _places(pointer[0]) if pointer is not None else ():
            self.remove(f"{folder}/{place}")

    def checkpoint(self, folder: str) -> tuple[str, dict[str, str]] | None:
        """Return the folder of the last checkpoint and the checksums of its files; None if that cannot be read."""
        try:
            pointer = self.read_json(f"{folder}/{CHECKPOINT}")
            return None if pointer is None else (str(pointer["part"]), dict(pointer["files"]))
        except (StoreError, KeyError, TypeError, ValueError):
            return None

    def folder(self, name: str, digest: str) -> str:
        """Return the folder of a stage."""
        return f"{self.root}/{name}/{digest}"

    def path(self, what: str, name: str, digest: str, goal_digest: str | None) -> str:
        """Return the path of a result or of a recipe."""
        suffix = "" if goal_digest is None else f"-{goal_digest[:16]}"
        return f"{self.folder(name, digest)}/{what}{suffix}.json"


@dataclass
class Attempt:
    """One attempt to compute a stage. Its files are in a folder with its id, so two attempts cannot mix their files."""

    store: Store
    stage: Stage
    id: str
    files: dict[str, str] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    def put(self, file: str, content: bytes) -> None:
        """Write a file of the result."""
        path = f"attempt-{self.id}/{file}"
        self.store.write(f"{self._folder}/{path}", content)
        self.files[file] = f"{path}#{hashlib.sha256(content).hexdigest()}"

    def adopt(self, files: dict[str, str]) -> bool:
        """Reuse files of an earlier attempt. False if one of them is missing or changed."""
        for pointer in files.values():
            path, sha256 = pointer.rsplit("#", 1)
            if self.store.sha256(f"{self._folder}/{path}") != sha256:
                return False
        self.files |= files
        return True

    def report(self, record: dict[str, Any]) -> None:
        """Add a record to the metric history. Waiting trials see it at once."""
        self.records.append(record)
        self.store.write(f"{self._folder}/{HISTORY}", _dump(self.records))

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
        path = self.store.path(RESULT, self.stage.name, self.stage.digest, self.stage.goal_digest)
        self.store.write(path, _dump({"body": body, "sha256": digest_of(body)}))
        key = StageKey(self.stage.name, self.stage.digest, identity, self.stage.goal_digest)
        return StageResult(key, record, dict(self.files), list(self.records), seconds)

    @property
    def _folder(self) -> str:
        return self.store.folder(self.stage.name, self.stage.digest)


def _places(part: str) -> tuple[str, str]:
    """Both folders of the writer of this one."""
    writer = part.rsplit(".", 1)[0]
    return f"{writer}.0", f"{writer}.1"


def _describe(stage: Stage) -> dict[str, Any]:
    above = {
        role: {"stage": key.name, "digest": key.digest, "content": key.content, "goal_digest": key.goal_digest}
        for role, key in stage.upstream.items()
    }
    return {
        "stage": stage.name,
        "version": stage.version,
        "code": code_of(stage),
        "digest": stage.digest,
        "inputs": stage.inputs,
        "upstream": above,
        "goal": stage.goal,
    }


def _dump(value: Any) -> bytes:  # noqa: ANN401 - anything JSON can hold
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()
