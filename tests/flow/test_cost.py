"""The cost of training is counted during training, and is equal for computed, shared and resumed stages."""

import pytest

from tests.flow.conftest import ignore
from tune_tickets.engine.execution import execute
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.methods.base import Flow
from tune_tickets.methods.robustt import RobustT
from tune_tickets.results.records import StageRecord, Training, cost_of

# The tiny task has 128 training rows: 8 steps of 16 an epoch, and mini-epochs of one step.
ROBUSTT = {
    "epochs": 1.5,
    "batch_size": 16,
    "adversary": {"kind": "pgd", "steps": 2},
    "finetuning": {"epochs": 2, "batch_size": 16},
}


def searched(pipeline):
    pipeline.run(pipeline.method.find(pipeline), ignore)
    return pipeline.stages[-1].training


def test_a_search_is_counted_to_its_own_stop_also_where_others_have_gone_further(make_pipeline):
    stops = {}
    for gamma in (0.0, 0.4):  # the first runs to the end of its epoch, the second finds all it needs in the store
        pipeline = make_pipeline(method__gamma=gamma)
        result = pipeline.run(pipeline.method.find(pipeline), ignore)
        stops[gamma] = result.record["stop"], pipeline.stages[-1]
    (end, first), (stop, second) = stops.values()
    assert (end, second.cached) == (8, True)
    assert stop < 8
    # A mini-epoch is 16 of 128 rows, two FreeLB passes each.
    assert first.training.passes == 8 * 16 * 2 / 128 == 2.0
    assert second.training.passes == stop * 16 * 2 / 128
    assert 0.0 < second.training.seconds < first.training.seconds


def test_a_trajectory_that_is_extended_counts_from_its_start(make_pipeline):
    short = searched(make_pipeline(method__gamma=0.4))
    whole = searched(make_pipeline(method__gamma=0.0))
    assert short.passes < whole.passes == 2.0
    assert short.seconds < whole.seconds


def test_a_ticket_by_masks_costs_a_fine_tuning_a_mask_training_and_a_retraining(experiment, world, store_url):
    method = RobustT.model_validate(ROBUSTT)
    retraining = experiment.settings.retraining.model_copy(update={"epochs": 1})
    settings = experiment.settings.model_copy(update={"method": method, "retraining": retraining})
    pipeline = Flow(settings, world, LocalRunner(store_url, settings.resources))
    trained = pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)
    found = [(stage.name, stage.training and stage.training.passes) for stage in pipeline.stages]
    # Masks: 1.5 epochs of PGD-2, three passes a step.
    assert found == [("retrain", 2.0), ("masks", 4.5), ("draw", None), ("retrain", 1.0)]
    cost = cost_of(pipeline.stages, trained.key.digest)
    assert (cost.retraining.passes, cost.search.passes, cost.total.passes) == (1.0, 6.5, 7.5)
    assert cost.total.seconds == pytest.approx(
        sum(stage.training.seconds for stage in pipeline.stages if stage.training)
    )


def test_a_stage_that_was_cut_off_counts_all_its_work(make_pipeline, store_url):
    pipeline = make_pipeline()
    resources = pipeline.settings.resources
    stage = pipeline.retrain(None)

    class Cut(Exception):
        pass

    def cut(done, total, records):
        if records == 4:
            raise Cut

    with pytest.raises(Cut):
        execute(stage, resources, store_url, cut)
    resumed = execute(stage, resources, store_url, lambda *progress: None)
    assert resumed.record["training"]["passes"] == 8.0
    assert resumed.record["training"]["seconds"] > 0.0


def stage(name, digest, passes=None, seconds=0.0):
    training = None if passes is None else Training(passes=passes, seconds=seconds)
    return StageRecord(name=name, digest=digest, cached=False, seconds=99.0, training=training)


def test_everything_trained_beside_the_model_itself_is_search():
    stages = [stage("search", "a", 1.5, 12.0), stage("draw", "b"), stage("retrain", "c", 3.0, 20.0)]
    cost = cost_of([*stages, stage("attack", "d")], "c")
    assert cost.metrics() == {
        "cost/passes": 3.0,
        "cost/passes_with_search": 4.5,
        "cost/seconds": 20.0,
        "cost/seconds_with_search": 32.0,
    }


def test_work_that_a_trial_asks_for_twice_is_counted_once():
    twice = [stage("retrain", "a", 2.0), stage("retrain", "a", 2.0), stage("retrain", "c", 3.0)]
    assert cost_of(twice, "c").search.passes == 2.0


def test_stages_of_older_stores_do_not_tell():
    assert cost_of([stage("retrain", "c")], "c") is None
