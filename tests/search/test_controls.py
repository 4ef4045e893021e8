"""Controls that fail, or are not finished when the search ends, do not make the search fail."""

import threading

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.config.search import Resources
from tune_tickets.engine.client import StageFailed
from tune_tickets.engine.runner import LocalRunner, NotStored, StoreReader
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.results.records import CleanFigures, Outcome, Sparsity, TrialRecord
from tune_tickets.search import controls
from tune_tickets.search import controls as random_controls
from tune_tickets.search.controls import DenseControl
from tune_tickets.search.preflight import preflight
from tune_tickets.search.progress import TrialFinished
from tune_tickets.search.trainable import TrialContext


@pytest.fixture
def context(tmp_path):
    (tmp_path / "x.yaml").write_text("controls: {random: true, random_seeds: 3}\n", encoding="utf-8")
    return TrialContext(load_experiment(tmp_path / "x.yaml"), None, str(tmp_path / "store"), "broker")


@pytest.fixture
def winner(make_outcome):
    outcome = make_outcome()
    return TrialRecord(id="t000", number=0, status="complete", params={}, outcome=outcome, values=(1.0,), feasible=True)


@pytest.fixture
def make_outcome():
    def outcome() -> Outcome:
        clean = CleanFigures(accuracy=80.0, interval=(70.0, 90.0), rows=10, majority_share=50.0)
        sparsity = Sparsity(heads=0, neurons=0, weights=0, parameters=1, parameters_total=1, parameters_dense=1)
        return Outcome(clean=clean, attacks=(), sparsity=sparsity, retrain_digest="r", draw_digest="d", mask="m")

    return outcome


class FakePipeline:
    """Fails for one seed, and for the dense control; nothing is in its store."""

    outcome: Outcome

    def __init__(self, settings, world, runner) -> None:
        self.settings, self.runner, self.stages = settings, runner, []

    def random_control(self, like, seed, on_record, others) -> Outcome:
        if isinstance(self.runner, StoreReader):
            raise NotStored("nothing")
        if seed == 1 or self.runner.stopped:
            raise StageFailed("stage 'retrain' failed: RuntimeError: out of memory")
        return self.outcome

    def dense_control(self, on_record) -> Outcome:
        raise StageFailed("stage 'retrain' failed: RuntimeError: out of memory")


@pytest.fixture(autouse=True)
def fake_pipeline(monkeypatch, make_outcome):
    FakePipeline.outcome = make_outcome()
    monkeypatch.setattr(controls, "Flow", FakePipeline)
    monkeypatch.setattr(random_controls, "Flow", FakePipeline)


def test_a_random_control_that_fails_leaves_the_others(context, winner):
    events = []
    found = random_controls.random_controls(context, None, [winner], events.append, lambda: False)
    assert [control.seed for control in found] == [0, 2]
    [failed] = [event for event in events if isinstance(event, TrialFinished) and event.status == "failed"]
    assert (failed.number, "out of memory" in failed.note) == ("random-1", True)


def test_no_control_is_begun_when_the_search_has_ended(context, winner):
    events = []
    assert random_controls.random_controls(context, None, [winner], events.append, lambda: True) == []
    assert events == []


def test_a_control_is_not_waited_for_when_the_search_ends(context, winner):
    events = []
    begun = lambda: bool(events)  # noqa: E731 - the search ends as soon as the first control has begun
    assert random_controls.random_controls(context, None, [winner], events.append, begun) == []
    assert {event.status for event in events if isinstance(event, TrialFinished)} == {"interrupted"}


def test_a_dense_control_that_fails_is_said_and_left_out(context):
    events = []
    dense = DenseControl(context, None, events.append)
    assert dense.result(lambda: False) is None
    [failed] = [event for event in events if isinstance(event, TrialFinished)]
    assert (failed.number, failed.status) == ("dense", "failed")


def test_the_dense_control_is_not_waited_for_when_the_search_has_ended(context, monkeypatch):
    over = threading.Event()
    waiting = FakePipeline.dense_control

    def wait(pipeline, on_record) -> Outcome:
        if not isinstance(pipeline.runner, StoreReader):
            over.wait(60)
        return waiting(pipeline, on_record)

    monkeypatch.setattr(FakePipeline, "dense_control", wait)
    dense = DenseControl(context, None, lambda event: None)
    try:
        assert dense.result(lambda: True) is None
    finally:
        over.set()


@pytest.fixture
def measured(tiny_yaml, tmp_path, monkeypatch):
    """An experiment whose controls are in its store from an earlier session, and its winner."""
    monkeypatch.setattr(controls, "Flow", Flow)
    small = ["retraining.epochs=1", "evaluation.rows=2", "controls.random=true", "method={kind: random}"]
    experiment = load_experiment(tiny_yaml, [*small, "search.warm_starts=[]"])
    url = str(tmp_path / "store")
    world = preflight(experiment, Store(url))

    def pipeline() -> Flow:
        return Flow(experiment.settings, world, LocalRunner(url, Resources()))

    outcome = pipeline().find_ticket(lambda record: None)
    pipeline().dense_control(lambda record: None)
    pipeline().random_control(StageKey("draw", outcome.draw_digest, outcome.mask), 0, lambda record: None)
    winner = TrialRecord(
        id="t000", number=0, status="complete", params={}, values=(1.0,), feasible=True, outcome=outcome
    )
    return TrialContext(experiment, world, url, "broker"), winner


def test_what_earlier_sessions_have_measured_is_kept_by_one_that_may_spend_nothing(measured):
    context, winner = measured
    dense = DenseControl(context, None, lambda event: None)
    found = [
        dense.result(lambda: True),
        *random_controls.random_controls(context, None, [winner], pytest.fail, lambda: True),
    ]
    assert [(control.kind, control.seed) for control in found] == [("dense", 0), ("random", 0)]
    assert all(stage.cached for control in found for stage in control.stages)
