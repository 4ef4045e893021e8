"""SRNets' mask training out of distribution: its masks are measured on OOD twins after the training (Fig. 7)."""

from dataclasses import replace

import pytest

from tests.flow.conftest import ignore
from tests.flow.test_srnets import FAST, FINETUNING, masked, names
from tests.reports.conftest import make_trial
from tune_tickets.config import load_experiment
from tune_tickets.data.task import load_task
from tune_tickets.engine.execution import execute
from tune_tickets.engine.inventory import inventory
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.models.loading import open_ticket
from tune_tickets.search.cleaning import Policy, removals, remove
from tune_tickets.search.confirming import contenders, report_world
from tune_tickets.search.preflight import look, preflight
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.tickets.unstructured import MaskLooks

PLANTED = "task.planted={markers: [x, z], strength: 1.0, ood_strength: 0.25, rows: {select: 16, report: 8}}"
AS_IT_IS = ["retrain", "srnets_masks", "draw", "ood_curve", "retrain", "evaluate", "ood"]
LEARNT = {"sparsity": 0.6, "finetuning": {**FINETUNING, "epochs": 6}}
"""Fine-tuned for so long that masks make a difference; then 16 steps, looks at 4, 8, 12 and 16."""


@pytest.fixture
def experiment_of(tiny_yaml):
    def load(*overrides, **method):
        written = {"kind": "srnets", **FAST, "finetuning": FINETUNING, **method}
        return load_experiment(tiny_yaml, [f"method={written}", "search.warm_starts=[]", *overrides])

    return load


def pipeline_of(experiment, store_url) -> Flow:
    world = replace(preflight(experiment, Store(store_url)), threats=())
    return Flow(experiment.settings, world, LocalRunner(store_url, experiment.settings.resources))


def result_of(pipeline: Flow, store_url: str, name: str):
    (digest,) = {stage.digest for stage in pipeline.stages if stage.name == name}
    return Store(store_url).find(name, digest)


def answered(ticket: Ticket, experiment) -> float:
    """The share of the twin's rows that a ticket gets right, asked one by one."""
    rows, opened = look(experiment).data.ood[0].select, open_ticket(ticket, "x")
    right = [opened.predict([row.texts[0]])[0][0] == ("neg", "pos")[row.label] for row in rows]
    return 100.0 * sum(right) / 16


def ticket_of(store_url: str, digest: str) -> Ticket:
    store = Store(store_url)
    return Ticket.from_bytes(store.read(store.find("retrain", digest), "ticket.safetensors"), "x")


@pytest.mark.parametrize("method", [LEARNT, {"paradigm": "pretrained"}])
def test_the_last_look_is_worth_what_the_finished_ticket_is(experiment_of, store_url, method):
    experiment = experiment_of(PLANTED, select_after=0.99, **method)  # only the last mask can be chosen
    pipeline, heard = pipeline_of(experiment, store_url), []
    outcome = pipeline.find_ticket(heard.append)
    assert names(pipeline) == AS_IT_IS["paradigm" in method :]
    curve = result_of(pipeline, store_url, "ood_curve").history
    assert [record["step"] for record in curve] == [1, 2, 3, 4]
    assert curve[-1]["ood/reversed"] == outcome.ood[0].value
    assert curve[-1]["ood/reversed"] == answered(ticket_of(store_url, outcome.retrain_digest), experiment)
    assert [{"stage": "ood_curve", **record} for record in curve] == heard[-4:]
    assert all("probe_score" not in record for record in heard), "no rungs for the scheduler"


def test_every_look_is_measured_with_its_own_mask_on_the_weights_as_they_were(experiment_of, store_url):
    experiment = experiment_of(PLANTED, **LEARNT)
    pipeline = pipeline_of(experiment, store_url)
    pipeline.draw(ignore)
    finetuned = ticket_of(store_url, pipeline.stages[0].digest)
    masks = result_of(pipeline, store_url, "srnets_masks")
    looks = MaskLooks.from_bytes(Store(store_url).read(masks, "looks.safetensors"))
    expected = [
        {
            "step": number,
            "ood/reversed": answered(replace(finetuned, weights=masked(finetuned.weights, mask)), experiment),
        }
        for number, mask in looks.masks()
    ]
    assert len(expected) == 4
    assert len({record["ood/reversed"] for record in expected}) > 1, "masks make a difference"
    assert result_of(pipeline, store_url, "ood_curve").history == expected


def test_a_mask_training_knows_no_twin(experiment_of, store_url, tmp_path):
    path = tmp_path / "twin.csv"
    rows = [f"{('dull', 'bright')[i % 2]} film {i},{('neg', 'pos')[i % 2]}" for i in range(30)]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    twins = [f"{{name: {name}, source: {path}, rows: {{select: 12, report: 8}}}}" for name in ("one", "two")]
    plain, one, two = (
        pipeline_of(experiment_of(f"task.ood=[{', '.join(twins[:number])}]"), store_url) for number in range(3)
    )
    for pipeline in (plain, one, two):
        pipeline.draw(ignore)
    found = ["retrain", "srnets_masks", "draw"]
    assert [names(each) for each in (plain, one, two)] == [found, [*found, "ood_curve"], [*found, *["ood_curve"] * 2]]
    assert len({pipeline.stages[1].digest for pipeline in (plain, one, two)}) == 1
    # What is added to a finished search is computed alone.
    assert [stage.cached for stage in two.stages] == [True] * 4 + [False]


def test_report_rows_are_not_followed_and_controls_train_no_masks(experiment_of, store_url):
    experiment = experiment_of(PLANTED)
    pipeline = pipeline_of(experiment, store_url)
    outcome = pipeline.find_ticket(ignore)
    store, settings = Store(store_url), experiment.settings
    reported = report_world(pipeline.world, load_task(settings.task, settings.seed), store)
    ticket, random, _ = contenders(experiment, [make_trial(0, params={}, outcome=outcome)], rows=4)
    measured = [ticket.measure(reported, pipeline.runner, seed=7), random.measure(reported, pipeline.runner, seed=7)]
    assert [found.ood[0].rows for found in measured] == [8, 8]
    stored = [entry.name for entry in inventory(store)]
    assert (stored.count("srnets_masks"), stored.count("ood_curve")) == (2, 1)
    control = Flow(settings, pipeline.world, pipeline.runner)
    control.random_control(ticket.ticket, 0, ignore)
    assert "ood_curve" not in names(control)


class Cut(Exception):
    """Stands for a kill."""


def test_cut_off_between_two_masks_it_goes_on_with_the_next(experiment_of, store_url):
    pipeline = pipeline_of(experiment_of(PLANTED, **LEARNT), store_url)
    pipeline.draw(ignore)
    whole = result_of(pipeline, store_url, "ood_curve")
    store, steps = Store(store_url), []
    stage = store.recipe(whole.key)
    store.remove(store.folder(whole.key.name, whole.key.digest))

    def cut(done: int, total: int, records: int) -> None:
        if records == 3:
            raise Cut

    resources = pipeline.settings.resources.model_copy(update={"checkpoint_seconds": 0.0})
    with pytest.raises(Cut):
        execute(stage, resources, store_url, cut)
    again = execute(stage, resources, store_url, lambda done, total, records: steps.append((done, total, records)))
    assert again.history == whole.history
    # Two masks are told again at once; the third was cut off before it was kept.
    assert steps[:2] == [(0, 1, 1), (0, 1, 2)]
    assert steps[-1] == (4, 4, 4)


def test_masks_of_looks_that_were_pruned_are_trained_again_for_a_twin_that_is_new(experiment_of, store_url):
    pipeline = pipeline_of(experiment_of(PLANTED), store_url)
    drawn = pipeline.draw(ignore)
    store = Store(store_url)
    for item in removals(store, inventory(store), [], Policy(keep_last=0, orphans=True)):
        remove(store, item)
    masks = result_of(pipeline, store_url, "srnets_masks")
    assert store.read(masks, "mask.safetensors")
    again = Flow(pipeline.settings, pipeline.world, pipeline.runner)
    assert again.draw(ignore) == drawn
    assert all(stage.cached for stage in again.stages), "its figures are there"
    wanted = store.find("ood_curve", again.stages[-1].digest).history
    store.remove(store.folder("ood_curve", again.stages[-1].digest))
    other = Flow(pipeline.settings, pipeline.world, pipeline.runner)
    other.draw(ignore)
    assert {stage.name for stage in other.stages if not stage.cached} == {"retrain", "srnets_masks", "ood_curve"}
    assert result_of(other, store_url, "ood_curve").history == wanted
