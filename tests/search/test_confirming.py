"""Which tickets are confirmed, and on which rows, with stages computed in this process."""

from dataclasses import replace

import pytest

from tests.flow.conftest import POINT, experiment, store_url, world  # noqa: F401 - fixtures
from tests.reports.conftest import make_outcome, make_summary, make_trial
from tune_tickets.config import load_experiment
from tune_tickets.data.task import load_task
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.errors import TicketsError
from tune_tickets.methods.base import Flow
from tune_tickets.search.confirming import _measured, check_masks, choose, contenders, report_world
from tune_tickets.search.preflight import preflight


def test_the_best_by_the_objective_are_chosen():
    trials = [make_trial(number, values=(value,)) for number, value in enumerate((0.5, 0.7, 0.6, 0.9))]
    trials[3] = trials[3].model_copy(update={"feasible": False})
    assert [trial.id for trial in choose(make_summary(trials), 2)] == ["t1", "t2"]


def test_of_a_vector_the_front_is_chosen():
    trials = [make_trial(number, values=values) for number, values in enumerate(((0.9, 0.1), (0.7, 0.7), (0.7, 0.6)))]
    summary = make_summary(trials, front=("t0", "t1"))
    assert [trial.id for trial in choose(summary, 3)] == ["t1", "t0"]


def test_without_a_ticket_that_may_win_there_is_nothing_to_confirm():
    with pytest.raises(TicketsError, match="nothing to confirm"):
        choose(make_summary([make_trial(0, feasible=False)]), 3)


@pytest.fixture
def chosen():
    """A trial with a real mask and invented metrics."""
    outcome = make_outcome().model_copy(update={"draw_digest": "d", "mask": "m"})
    return [make_trial(0, params=POINT, outcome=outcome), make_trial(1, params=POINT, outcome=make_outcome())]


def test_every_ticket_has_a_random_twin_and_all_share_the_dense_control(experiment, chosen):  # noqa: F811
    found = contenders(experiment, chosen, rows=5)
    assert [model.name for model in found] == ["t0", "random like t0", "t1", "dense"]
    assert {model.settings.evaluation.rows for model in found} == {5}
    assert [model.title for model in found] == ["earlyrobust", "random", "earlyrobust", "finetune"]


def test_a_store_without_the_ticket_is_named(experiment, chosen, store_url):  # noqa: F811
    with pytest.raises(TicketsError, match=r"does not contain the ticket of t0.*--store"):
        check_masks(contenders(experiment, chosen, rows=5), Store(store_url))


@pytest.mark.integration
def test_models_are_trained_on_what_they_were_and_measured_on_report_rows(experiment, world, store_url, chosen):  # noqa: F811
    settings = experiment.settings
    data = load_task(settings.task, settings.seed)
    dense = contenders(experiment, chosen, rows=4)[-1]
    runner = LocalRunner(store_url, settings.resources)
    store = Store(store_url)
    reported = dense.measure(report_world(world, data, store), runner, seed=7)
    selected = dense.measure(world, runner, seed=7)
    assert reported.retrain_digest == selected.retrain_digest, "report rows have no part in training"
    assert (reported.clean.rows, selected.clean.rows) == (len(data.report), len(data.select))
    assert reported.clean.sample != selected.clean.sample
    assert dense.measure(world, runner, seed=8).retrain_digest != selected.retrain_digest

    broken = replace(world, model_fingerprint="other", measured=replace(world.data, digest="absent"))
    failed = _measured(dense, 7, broken, runner, lambda event: None)
    assert failed.status == "failed"
    assert "the store" in failed.error


def test_a_subnetwork_taken_as_it_is_is_found_anew_with_every_seed_and_measured_on_report_rows(tiny_yaml, store_url):  # noqa: F811
    method = "{kind: srnets, sparsity: 0.4, epochs: 1.0, batch_size: 64, eval_interval: 2}"
    quick = ["method.finetuning={epochs: 1, batch_size: 64}", "retraining.epochs=1", "search.warm_starts=[]"]
    subnetworks = load_experiment(tiny_yaml, [f"method={method}", *quick])
    settings, store = subnetworks.settings, Store(store_url)
    world = replace(preflight(subnetworks, store), threats=())  # noqa: F811
    runner = LocalRunner(store_url, settings.resources)
    found = Flow(settings, world, runner).find_ticket(lambda record: None)
    ticket, random, _ = contenders(subnetworks, [make_trial(0, params={}, outcome=found)], rows=4)
    data = load_task(settings.task, settings.seed)
    reported = ticket.measure(report_world(world, data, store), runner, seed=7)
    assert reported.clean.rows == len(data.report)
    assert reported.mask != found.mask, "masks of other weights"
    assert ticket.measure(world, runner, seed=7).retrain_digest == reported.retrain_digest, (
        "report rows have no part in it"
    )
    shuffled = random.measure(world, runner, seed=7)
    assert shuffled.sparsity == reported.sparsity
    assert shuffled.mask not in (found.mask, reported.mask)
