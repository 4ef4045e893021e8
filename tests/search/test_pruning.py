"""What may be removed from a store, which experiments use it, and what a cleaned result can still do."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.flow.conftest import experiment, ignore, make_pipeline, store_url, world  # noqa: F401 - fixtures
from tests.reports.conftest import make_outcome, make_summary, make_trial
from tests.stages import Stage
from tune_tickets.cli.app import main
from tune_tickets.engine.inventory import STALE_SECONDS, in_use, inventory, searches_at_work, verify
from tune_tickets.engine.store import Store
from tune_tickets.results.records import ControlRecord, EpochsRecord, StageRecord
from tune_tickets.results.summary import write_summary
from tune_tickets.search.cleaning import Policy, removals, remove, store_users


def finish(store: Store, name: str, number: int, *files: str) -> str:
    stage = Stage(name, {"number": number})
    attempt = store.begin(stage)
    for file in files:
        attempt.put(file, f"{name} {number} {file}".encode())
    attempt.finish({}, 1.0)
    return stage.digest


def experiment_in(folder: Path, values: dict[str, float], age: float = 0.0) -> None:
    """A results folder whose trials are one retraining each: digest -> what it reached."""
    trials = [
        make_trial(
            number,
            values=(value,),
            outcome=make_outcome(),
            metrics={"clean": value, "aua": value},
            stages=(StageRecord(name="retrain", digest=digest, cached=False, seconds=1.0),),
        )
        for number, (digest, value) in enumerate(values.items())
    ]
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: x\n")
    write_summary(make_summary(trials), folder)
    for path in folder.iterdir():
        os.utime(path, (time.time() - age, time.time() - age))


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path) -> Store:
    return Store(str(tmp_path / "results" / "store") if request.param == "local" else f"memory://{tmp_path.name}")


def gone(store: Store, found) -> set[str]:
    return {f"{item.entry.name}/{item.entry.digest}" for item in found if item.what == "weights"}


def test_weights_stay_for_the_last_experiments_and_for_what_each_shows(store, tmp_path):
    digests = [finish(store, "retrain", number, "ticket.safetensors") for number in range(5)]
    old_best, old_worse, new_best, new_worse, nobody = digests
    masks = finish(store, "draw", 0, "mask.safetensors")
    experiment_in(tmp_path / "results" / "old", {old_best: 0.9, old_worse: 0.5, masks: 0.1}, age=1000)
    experiment_in(tmp_path / "results" / "new", {new_best: 0.9, new_worse: 0.5})
    users = store_users(tmp_path / "results")
    assert [user.folder.name for user in users] == ["new", "old"]
    entries = inventory(store)

    def weights(**policy: object) -> set[str]:
        return gone(store, removals(store, entries, users, Policy(**policy)))

    assert weights(keep_last=2) == set()
    assert weights(keep_last=1) == {f"retrain/{old_worse}"}
    assert weights(keep_last=0) == {f"retrain/{old_worse}", f"retrain/{new_worse}"}
    assert weights(keep_last=2, orphans=True) == {f"retrain/{nobody}"}

    found = removals(store, entries, users, Policy(keep_last=1))
    assert sum(item.size for item in found) == len("retrain 1 ticket.safetensors")
    for item in found:
        remove(store, item)
    again = inventory(store)
    assert store.find("retrain", old_worse).record == {}, "its figures stay"
    assert verify(store, again, lambda done, total: None) == [], "what was pruned is not damaged"
    assert removals(store, again, users, Policy(keep_last=1)) == []


def test_models_between_epochs_and_random_tickets_of_others_than_the_winner_are_not_kept(store, tmp_path):
    def noted(name, number, *files):
        digest = finish(store, name, number, *files)
        return digest, (StageRecord(name=name, digest=digest, cached=False, seconds=1.0),)

    compared, own = noted("retrain", 1, "ticket.safetensors")
    like, other = noted("retrain", 2, "ticket.safetensors")
    between, epochs = noted("epochs", 3, "ticket-001.safetensors", "ticket-002.safetensors")
    folder = tmp_path / "results" / "old"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: x\n")
    controls = [
        ControlRecord(kind="random", seed=0, like=trial, outcome=make_outcome(), stages=stages)
        for trial, stages in ((None, own), ("t1", other))
    ]
    record = EpochsRecord(model="t0", stages=epochs)
    write_summary(make_summary([make_trial(0)], controls=tuple(controls), epochs=(record,)), folder)
    found = removals(store, inventory(store), store_users(folder), Policy(keep_last=0))
    assert gone(store, found) == {f"retrain/{like}", f"epochs/{between}"}
    [epoch_by_epoch] = [item for item in found if item.entry.name == "epochs"]
    assert len(epoch_by_epoch.paths) == 2
    assert compared not in {item.entry.digest for item in found}


def test_of_a_masked_language_model_of_imp_and_of_a_mask_training_only_what_is_large_goes(store, tmp_path):
    finish(store, "masked_lm", 0, "masked_lm/model.safetensors", "masked_lm/config.json")
    finish(store, "imp", 0, "weights.safetensors", "scores.safetensors")
    finish(store, "srnets_masks", 0, "mask.safetensors", "looks.safetensors")
    finish(store, "search", 0, "trajectory.safetensors")
    finish(store, "attack", 0, "attacked.parquet")
    found = removals(store, inventory(store), [], Policy(keep_last=0, orphans=True))
    files = {path.split("/", 1)[1] for item in found for path in item.paths}
    weights = {"masked_lm/model.safetensors", "masked_lm/config.json", "weights.safetensors"}
    assert files == weights | {"looks.safetensors"}, "a mask stays, those on the way to it go"


def test_what_broken_off_work_has_left_goes_after_a_day(tmp_path):
    store = Store(str(tmp_path / "store"))
    unfinished, done = Stage("retrain", {"number": 0}), Stage("draw", {"number": 1})
    store.begin(unfinished).put("ticket.safetensors", b"half")
    store.save_checkpoint(unfinished, {"state.pt": b"state"})
    finish(store, "draw", 1, "mask.safetensors")
    store.begin(done).put("mask.safetensors", b"a late twin")
    Path(store.folder(done.name, done.digest), ".writing-abc").write_bytes(b"cut off")
    assert removals(store, inventory(store), [], Policy(0)) == [], "it may still be at work"
    for path in Path(store.root).rglob("*"):
        os.utime(path, (time.time() - 90000, time.time() - 90000))
    found = removals(store, inventory(store), [], Policy(0))
    assert sorted((item.what, item.entry.name, item.size) for item in found) == [
        ("checkpoints of unfinished stages", "retrain", len(b"state") + checkpoint_size(store, unfinished)),
        ("leftovers", "draw", len(b"cut off")),
        ("leftovers", "draw", len(b"a late twin")),
        ("leftovers", "retrain", len(b"half")),
    ]
    for item in found:
        remove(store, item)
    assert store.load_checkpoint(unfinished) is None
    assert store.read(store.result(done), "mask.safetensors") == b"draw 1 mask.safetensors"


def test_what_killed_workers_drivers_and_brokers_have_left_goes_after_a_day(tmp_path):
    store = Store(str(tmp_path / "store"))
    store.save_checkpoint(Stage("retrain", {"number": 0}), {"state.pt": b"state"})
    finish(store, "retrain", 0, "ticket.safetensors")  # and was killed before the checkpoint was dropped
    store.write(f"{store.root}/brokers/abc/values.json", b"[]")
    store.write(f"{store.root}/nodes/abc/token", b"abc")
    assert removals(store, inventory(store), [], Policy(0)) == [], "they may still be at work"
    for path in Path(store.root).rglob("*"):
        os.utime(path, (time.time() - 90000, time.time() - 90000))
    for item in removals(store, inventory(store), [], Policy(0)):
        assert item.what == "leftovers"
        remove(store, item)
    assert {path.split("/")[0] for path in store.files()} == {"retrain"}
    [entry] = inventory(store)
    assert sorted(path.rsplit("/", 1)[-1] for path in entry.files) == [
        "result.json", "stage.json", "ticket.safetensors"
    ]  # fmt: skip


def test_a_pruning_that_was_cut_off_goes_on_without_making_damage_of_what_is_gone(tmp_path, monkeypatch):
    store = Store(str(tmp_path / "store"))
    finish(store, "masked_lm", 0, "masked_lm/model.safetensors", "masked_lm/config.json")

    def prune() -> None:
        for item in removals(store, inventory(store), [], Policy(keep_last=0, orphans=True)):
            remove(store, item)

    steps = iter([Store.remove, interrupted])
    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove", lambda self, path: next(steps)(self, path))
        with pytest.raises(KeyboardInterrupt):
            prune()
    prune()
    assert not any(path.endswith(("model.safetensors", "config.json")) for path in store.files())
    assert verify(store, inventory(store), lambda done, total: None) == []


def interrupted(store: Store, path: str) -> None:
    raise KeyboardInterrupt


def test_a_checkpoint_replaced_while_it_is_verified_is_no_damage(tmp_path, monkeypatch):
    store, stage = Store(str(tmp_path / "store")), Stage("retrain", {"number": 0})
    store.begin(stage)
    store.save_checkpoint(stage, {"state.pt": b"first"})
    hashed = Store.sha256

    def late(self: Store, path: str) -> str | None:
        store.save_checkpoint(stage, {"state.pt": b"second"})
        return hashed(self, path)

    monkeypatch.setattr(Store, "sha256", late)
    assert verify(store, inventory(store), lambda done, total: None) == []


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"at": "now", "results": "x"}', b'{"at": null}'])
def test_a_mark_that_cannot_be_read_is_of_nobody(tmp_path, content):
    store = Store(str(tmp_path / "store"))
    store.write(f"{store.root}/in-use/abc.json", content)
    assert searches_at_work(store) == []


def checkpoint_size(store: Store, stage: Stage) -> int:
    return Path(store.folder(stage.name, stage.digest), "checkpoint.json").stat().st_size


def test_a_pruned_model_is_trained_again_only_for_who_reads_it(make_pipeline, store_url):  # noqa: F811
    store = Store(store_url)

    def measured(rows: int):
        pipeline = make_pipeline()
        trained = pipeline.run(pipeline.retrain(None), ignore)
        evaluation = pipeline.settings.evaluation.model_copy(update={"rows": rows})
        pipeline.settings = pipeline.settings.model_copy(update={"evaluation": evaluation})
        return pipeline, pipeline.run(pipeline._evaluate(trained), ignore).record

    _, first = measured(8)
    for item in removals(store, inventory(store), [], Policy(0, orphans=True)):
        remove(store, item)
    pipeline, again = measured(8)
    assert again == first
    assert all(stage.cached for stage in pipeline.stages), "figures that are known need no weights"
    pipeline, other = measured(9)
    assert other["clean"] == first["clean"]
    assert [(stage.name, stage.cached) for stage in pipeline.stages] == [("retrain", False), ("evaluate", False)]
    [reason] = Path(store_url).glob("quarantine/retrain/*/*/reason.json")
    assert "ticket.safetensors is pruned" in json.loads(reason.read_text())["reason"]


def test_a_search_whose_state_was_pruned_keeps_its_scores_and_starts_afresh_beyond_them(make_pipeline, store_url):  # noqa: F811
    store = Store(store_url)

    def searched(gamma: float):
        pipeline = make_pipeline(method__gamma=gamma)
        return pipeline.run(pipeline.method.find(pipeline), ignore)

    near = searched(0.4)
    assert near.record["stop"] < near.record["mini_epochs"], "else there is no state to prune"
    for path in Path(store_url).rglob("*"):
        os.utime(path, (time.time() - 90000, time.time() - 90000))
    [item] = removals(store, inventory(store), [], Policy(0, orphans=True))
    assert item.what == "states of searches"
    remove(store, item)
    assert verify(store, inventory(store), lambda done, total: None) == []
    short = searched(0.9)
    assert (short.record["computed_mini_epochs"], short.history) == (0, near.history)
    far = searched(0.0)
    assert far.record["computed_mini_epochs"] == far.record["mini_epochs"]
    assert [record["step"] for record in far.history] == list(range(1, far.record["mini_epochs"] + 1))
    assert far.history[: len(near.history)] == near.history


def test_nothing_is_pruned_under_a_running_search(tmp_path, capsys, monkeypatch):
    store = Store(str(tmp_path / "results" / "store"))
    digest = finish(store, "retrain", 0, "ticket.safetensors")
    call = ["store", "prune", str(tmp_path / "results"), "--keep-last", "0", "--orphans", "--yes"]
    with in_use(store, tmp_path / "results" / "x"):
        with pytest.raises(SystemExit) as ended:
            main(call)
        assert ended.value.code == 2
        told = capsys.readouterr().err
        assert "nothing is removed while a search uses the store" in told
        assert str(tmp_path / "results" / "x") in told
        now = time.time
        monkeypatch.setattr("time.time", lambda: now() + STALE_SECONDS + 1)
        assert searches_at_work(store) == [], "a mark without a beat is one of the dead"
        monkeypatch.undo()
    assert searches_at_work(store) == []
    with pytest.raises(SystemExit) as ended:
        main(call)
    assert ended.value.code == 0
    assert "freed." in capsys.readouterr().out
    assert not list(Path(store.folder("retrain", digest)).rglob("ticket.safetensors"))
