"""The expected time of a planned stage: planned steps at the measured speed."""

import pytest

from tests.stages import Stage
from tune_tickets.engine.inventory import inventory
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.search.plan import Work, expected_seconds


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(str(tmp_path / "store"))


def keep(store: Store, stage: Stage, record: dict, seconds: float) -> StageKey:
    store.begin(stage).finish(record, seconds)
    return StageKey(stage.name, stage.digest, stage.digest)


def trained(store: Store, rows: int, passes: float, training: float, seconds: float, model: str = "m") -> StageKey:
    data = keep(store, Stage("data", {"rows": rows}), {"train": rows}, 0.0)
    stage = Stage("retrain", {"model_fingerprint": model, "passes": passes}, {"data": data})
    return keep(store, stage, {"training": {"passes": passes, "seconds": training}}, seconds)


def expected(store: Store, name: str, steps: float | None, model: str | None = "m") -> float | None:
    return expected_seconds(store, inventory(store), name, Work("", steps), model)


def test_training_is_passes_of_rows_at_the_measured_pace_and_what_comes_beside_them(store):
    trained(store, rows=100, passes=2.0, training=40.0, seconds=43.0)
    trained(store, rows=300, passes=1.0, training=60.0, seconds=65.0)
    # 100 s for 500 passes of a row, and 3 and 5 s in addition.
    assert expected(store, "retrain", 1000.0) == pytest.approx(1000 * 0.2 + 4.0)
    assert expected(store, "retrain", None) == pytest.approx((43.0 + 65.0) / 2), "steps that are not counted"


def test_the_pace_is_that_of_the_same_model_if_it_ever_ran(store):
    trained(store, rows=100, passes=1.0, training=10.0, seconds=10.0, model="small")
    trained(store, rows=100, passes=2.0, training=400.0, seconds=400.0, model="large")
    assert expected(store, "retrain", 100.0, "small") == pytest.approx(10.0)
    assert expected(store, "retrain", 100.0, "large") == pytest.approx(200.0)
    assert expected(store, "retrain", 300.0, "new") == pytest.approx(410.0)


def test_measuring_and_attacking_go_by_rows_of_the_model_that_was_trained(store):
    for model, pace in (("m", 2.0), ("other", 50.0)):
        above = {"retrain": trained(store, 10, 1.0, 1.0, 1.0, model)}
        keep(store, Stage("attack", {"shard": [0, 4]}, above), {"rows": [{}] * 4}, 4 * pace)
        keep(store, Stage("evaluate", {}, above), {"clean": {"rows": 20}}, 20 * pace)
    assert expected(store, "attack", 32.0) == pytest.approx(64.0)
    assert expected(store, "evaluate", 5.0) == pytest.approx(10.0)


def test_masks_on_a_twin_go_by_their_number_times_its_rows(store):
    keep(store, Stage("ood_curve", {"model_fingerprint": "m"}), {"looks": 5, "rows": 20}, 50.0)
    keep(store, Stage("ood_curve", {"model_fingerprint": "other"}), {"looks": 1, "rows": 20}, 80.0)
    assert expected(store, "ood_curve", 40.0) == pytest.approx(20.0)


def test_what_never_ran_or_cannot_be_read_is_not_known(store, tmp_path):
    assert expected(store, "retrain", 10.0) is None
    trained(store, rows=100, passes=1.0, training=10.0, seconds=10.0)
    for path in (tmp_path / "store").glob("retrain/*/result.json"):
        path.write_text("{")
    assert expected(store, "retrain", 10.0) is None
