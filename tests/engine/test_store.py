"""The stage store: addresses, atomic writes, verified reads."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from tests.stages import Stage
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError
from tune_tickets.files import write_atomic

STAGE = Stage("draw", {"kind": "random", "ratio": 0.5}, {"search": StageKey("search", "ab", "content-1")})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def finish(store: Store, stage: Stage = STAGE, content: str | None = None):
    attempt = store.begin(stage)
    attempt.report({"step": 1, "loss": 0.5})
    attempt.put("weights.bin", b"weights")
    return attempt.finish({"figure": 1.0}, seconds=2.0, content=content)


def test_the_digest_is_the_sha256_of_canonical_json():
    canonical = '{"inputs":{"kind":"random","ratio":0.5},"stage":"draw","upstream":{"search":"content-1"},"version":2}'
    assert STAGE.digest == hashlib.sha256(canonical.encode()).hexdigest()


def test_the_digest_depends_on_inputs_and_the_content_above_but_not_on_the_goal():
    assert Stage("draw", {"kind": "random", "ratio": 0.6}, STAGE.upstream).digest != STAGE.digest
    other = {"search": StageKey("search", "ab", "content-2")}
    assert Stage("draw", STAGE.inputs, other).digest != STAGE.digest
    elsewhere = {"search": StageKey("search", "cd", "content-1")}
    assert Stage("draw", STAGE.inputs, elsewhere).digest == STAGE.digest
    assert Stage("draw", STAGE.inputs, STAGE.upstream, goal={"gamma": 0.1}).digest == STAGE.digest


def test_a_finished_stage_is_found_with_its_record_files_and_history(store):
    assert store.result(STAGE) is None
    finish(store, content="bits")
    found = store.result(STAGE)
    assert found is not None
    assert (found.record, found.history, found.seconds) == ({"figure": 1.0}, [{"step": 1, "loss": 0.5}], 2.0)
    assert found.key.content == "bits"
    assert store.read(found, "weights.bin") == b"weights"
    assert not found.computed


def test_results_of_different_goals_stand_side_by_side(store):
    near, far = (Stage("search", {}, goal={"gamma": gamma}) for gamma in (0.1, 0.2))
    finish(store, near)
    assert store.result(near) is not None
    assert store.result(far) is None


def test_an_unfinished_attempt_is_no_result_but_its_history_can_be_followed(store):
    attempt = store.begin(STAGE)
    attempt.put("weights.bin", b"half")
    attempt.report({"step": 1})
    assert store.result(STAGE) is None
    assert store.history(STAGE.name, STAGE.digest) == [{"step": 1}]


def test_a_changed_file_is_detected(store, tmp_path):
    finish(store)
    (blob,) = (tmp_path / "store").rglob("weights.bin")
    blob.write_bytes(b"Weights")
    with pytest.raises(StoreError, match="does not match its digest"):
        store.read(store.result(STAGE), "weights.bin")
    blob.unlink()
    with pytest.raises(StoreError, match="is missing"):
        store.read(store.result(STAGE), "weights.bin")


def test_a_changed_result_is_detected(store, tmp_path):
    finish(store)
    (path,) = (tmp_path / "store").rglob("result.json")
    document = json.loads(path.read_text())
    document["body"]["record"]["figure"] = 2.0
    path.write_text(json.dumps(document))
    with pytest.raises(StoreError, match="does not match its own digest"):
        store.result(STAGE)
    path.write_text('{"body": {"rec')
    with pytest.raises(StoreError, match="not readable"):
        store.result(STAGE)


def test_a_failed_write_leaves_the_old_content_and_no_temporary_file(store, tmp_path, monkeypatch):
    target = str(tmp_path / "store" / "file")
    store.write(target, b"old")
    monkeypatch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.write(target, b"new")
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["file"]
    assert store.read_path(target) == b"old"


def test_a_write_is_on_disk_with_its_name_when_it_returns(store, tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def moved(source, target) -> None:
        steps.append("move")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    store.write(f"{store.root}/new/result.json", b"{}")
    write_atomic(tmp_path / "config.yaml", "name: x")
    assert steps == ["file", "move", "folder"] * 2


def test_a_checkpoint_is_replaced_whole_and_ignored_when_damaged(store, tmp_path):
    assert store.load_checkpoint(STAGE) is None
    store.save_checkpoint(STAGE, {"state": b"one"})
    store.save_checkpoint(STAGE, {"state": b"two"})
    assert store.load_checkpoint(STAGE) == {"state": b"two"}
    (blob,) = (tmp_path / "store").rglob("state")
    blob.write_bytes(b"tw")
    assert store.load_checkpoint(STAGE) is None
    store.drop_checkpoint(STAGE)
    assert not list((tmp_path / "store").rglob("state"))


def test_two_attempts_at_one_stage_keep_their_files_apart(store):
    first, second = store.begin(STAGE), store.begin(STAGE)
    first.put("weights.bin", b"first")
    second.put("weights.bin", b"second")
    first.finish({}, 1.0)
    assert store.read(store.result(STAGE), "weights.bin") == b"first"


def test_the_store_works_on_any_fsspec_file_system():
    store = Store("memory://tickets-test-store")
    finish(store)
    found = store.result(STAGE)
    assert store.read(found, "weights.bin") == b"weights"
    assert sorted(path.split("/")[-1] for path in store.files()) == [
        "history.json", "result.json", "stage.json", "weights.bin"
    ]  # fmt: skip
