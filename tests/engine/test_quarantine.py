"""Real damage at every place of a real pipeline is found, quarantined with the reason, and computed again."""

import json
import shutil
from pathlib import Path

import pytest

from tests.flow.conftest import ignore
from tests.stages import Stage
from tune_tickets.engine.quarantine import Lost, to_recompute
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store, Unreadable
from tune_tickets.errors import StoreError
from tune_tickets.methods.imp import Imp
from tune_tickets.search.preflight import preflight


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def wreck(path: Path) -> None:
    path.write_bytes(b"\xff\x00 not json")


DAMAGE = {"flipped": flip, "cut short": cut, "gone": Path.unlink, "overwritten": wreck}


def evaluated(pipeline):
    """All stages up to the clean metrics."""
    trained = pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)
    return pipeline.run(pipeline._evaluate(trained), ignore)


def only(store_url: str, pattern: str) -> Path:
    (path,) = Path(store_url).glob(pattern)
    return path


def reasons(store_url: str) -> list[dict[str, str]]:
    return [json.loads(path.read_text()) for path in Path(store_url).glob("quarantine/**/reason.json")]


@pytest.fixture
def short_pipeline(make_pipeline):
    def pipeline():
        made = make_pipeline()
        retraining = made.settings.retraining.model_copy(update={"epochs": 1})
        made.settings = made.settings.model_copy(update={"retraining": retraining})
        return made

    return pipeline


@pytest.fixture(scope="module")
def computed_once(tmp_path_factory):
    return tmp_path_factory.mktemp("sound") / "store"


@pytest.fixture
def sound(short_pipeline, store_url, computed_once):
    """An undamaged store, with its ticket and metrics."""
    if computed_once.exists():
        shutil.copytree(computed_once, store_url, dirs_exist_ok=True)
        shutil.rmtree(Path(store_url) / "data")
        shutil.copytree(computed_once / "data", Path(store_url) / "data")
    record = evaluated(short_pipeline()).record
    if not computed_once.exists():
        shutil.copytree(store_url, computed_once)
    return record, only(store_url, "retrain/*/attempt-*/ticket.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("broken", "reader", "damage"),
    [
        ("retrain/*/attempt-*/ticket.safetensors", "evaluate", "flipped"),
        ("retrain/*/attempt-*/ticket.safetensors", "evaluate", "gone"),
        ("draw/*/attempt-*/mask.safetensors", "retrain", "cut short"),
        ("search/*/attempt-*/trajectory.safetensors", "draw", "overwritten"),
    ],
)
def test_a_damaged_file_is_computed_again_for_its_reader(short_pipeline, store_url, sound, broken, reader, damage):
    record, ticket = sound
    only(store_url, f"{reader}/*/result*.json").unlink()
    path = only(store_url, broken)
    DAMAGE[damage](path)
    left = path.read_bytes() if path.exists() else None
    name = broken.split("/")[0]

    pipeline = short_pipeline()
    assert evaluated(pipeline).record == record
    assert only(store_url, broken).read_bytes() != left
    [reason] = reasons(store_url)
    assert reason["stage"].startswith(f"{name}/")
    assert path.name in reason["reason"]
    moved = list(Path(store_url).glob(f"quarantine/{name}/*/*/attempt-*/{path.name}"))
    assert [found.read_bytes() for found in moved] == ([] if left is None else [left]), "kept as it was found"
    assert {stage.name for stage in pipeline.stages if not stage.cached} == {name, reader} - {"search"}
    assert [stage.name for stage in pipeline.stages].count(name) == 1, "charged once"
    trained = Path(store_url).glob("retrain/*/attempt-*/ticket.safetensors")
    assert {found.read_bytes() for found in trained} == {ticket}, "to the last bit"


@pytest.mark.parametrize(
    ("name", "damage"),
    [("search", "flipped"), ("draw", "cut short"), ("retrain", "overwritten"), ("evaluate", "flipped")],
)
def test_a_damaged_result_counts_as_not_there(short_pipeline, store_url, sound, name, damage):
    path = only(store_url, f"{name}/*/result*.json")
    DAMAGE[damage](path)
    left = path.read_bytes()
    pipeline = short_pipeline()
    assert evaluated(pipeline).record == sound[0]
    [reason] = reasons(store_url)
    assert reason["stage"].startswith(f"{name}/")
    assert only(store_url, f"quarantine/{name}/*/*/{path.name}").read_bytes() == left
    # The trajectory is still in its checkpoint, so it need not be trained again.
    assert [stage.name for stage in pipeline.stages if not stage.cached] == [name] * (name != "search")


def test_damage_all_the_way_up_is_mended_from_the_top(short_pipeline, store_url, sound):
    for pattern in ("search/*/attempt-*/*", "draw/*/attempt-*/*", "retrain/*/attempt-*/*"):
        flip(only(store_url, pattern))
    only(store_url, "evaluate/*/result.json").unlink()
    assert evaluated(short_pipeline()).record == sound[0]
    assert len(reasons(store_url)) == 3


@pytest.mark.parametrize("damage", ["cut short", "overwritten"])
def test_a_damaged_checkpoint_or_history_costs_time_only(short_pipeline, store_url, sound, damage):
    for pattern in ("search/*/checkpoint.json", "search/*/history.json"):
        DAMAGE[damage](only(store_url, pattern))
    for pattern in ("search", "draw", "retrain", "evaluate"):
        only(store_url, f"{pattern}/*/result*.json").unlink()
    assert evaluated(short_pipeline()).record == sound[0]


def test_weights_between_the_rounds_of_imp_are_computed_again(pipeline_of, store_url):
    method = Imp(epochs=1.0, batch_size=16, learning_rate=3e-3, sparsity=0.2, rewinding="learning_rate")
    pipeline = pipeline_of(method)
    key = pipeline.draw(ignore)
    rounds = [stage.digest for stage in pipeline.stages if stage.name == "imp"]
    flip(only(store_url, f"imp/{rounds[0]}/attempt-*/weights.safetensors"))
    only(store_url, f"imp/{rounds[1]}/result.json").unlink()
    again = pipeline_of(method)
    assert again.draw(ignore) == key
    assert [stage.digest for stage in again.stages if stage.name == "imp" and not stage.cached] == rounds


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_rows_that_were_damaged_are_put_back_when_the_search_is_started_again(
    short_pipeline, store_url, experiment, world, damage
):
    path = only(store_url, "data/*/attempt-*/*")
    DAMAGE[damage](path)
    pipeline = short_pipeline()
    with pytest.raises(Unreadable, match=r"rows.json .*Start the search again with --resume"):
        pipeline.run(pipeline.method.find(pipeline), ignore)
    assert preflight(experiment, Store(store_url)) == world
    assert pipeline.run(pipeline.method.find(pipeline), ignore).computed


def test_readers_side_by_side_do_not_set_aside_what_was_mended_meanwhile(short_pipeline, store_url, sound):
    store = Store(store_url)
    pipeline = short_pipeline()
    evaluated(pipeline)
    digest = next(stage.digest for stage in pipeline.stages if stage.name == "retrain")
    key = StageKey("retrain", digest, digest)
    flip(only(store_url, "retrain/*/attempt-*/ticket.safetensors"))
    stage = to_recompute(store, key)
    pipeline.recompute(stage)
    assert to_recompute(store, key) is None
    assert len(reasons(store_url)) == 1


def test_the_recipe_of_a_result_vouches_for_itself(short_pipeline, store_url, sound):
    store = Store(store_url)
    for path in Path(store_url).glob("*/*/stage*.json"):
        written = json.loads(path.read_text())
        goal = Stage("x", {}, goal=written["goal"]).goal_digest
        key = StageKey(written["stage"], written["digest"], written["digest"], goal)
        stage = store.recipe(key)
        assert (stage.digest, stage.goal_digest) == (key.digest, goal)
        written["inputs"]["seed"] = 12345
        path.write_text(json.dumps(written))
        assert store.recipe(key) is None
        path.write_text("[]")
        assert store.recipe(key) is None


def test_a_result_that_comes_out_differently_is_not_passed_off_as_the_one_promised(short_pipeline, store_url, sound):
    runner = LocalRunner(store_url, short_pipeline().settings.resources)
    again = runner.run(short_pipeline().retrain(None))
    stage = Stage("retrain", {})
    with pytest.raises(StoreError, match="with a different result"):
        Lost(stage, StageKey("retrain", again.key.digest, "other bits"), "a file is changed").check(again)
