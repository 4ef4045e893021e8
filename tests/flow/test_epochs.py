"""A repeated retraining that keeps every epoch: the same bits at its end, attacks in between, safe against kills."""

import pytest

from tests.flow.conftest import ignore
from tests.flow.test_resumed_stages import Cut
from tune_tickets.config.training import Retraining
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.methods.robustt import RobustT
from tune_tickets.training.schedule import LEAST_STEPS

EPOCHS = 3
FINETUNING = {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3}
SINGLE_WEIGHTS = RobustT(scores="magnitude", finetuning=FINETUNING, sparsity=0.3)


@pytest.fixture
def trained(make_pipeline, store_url):
    """A trained ticket: its pipeline, the stage that trained it, its metrics."""

    def train(method=None):
        pipeline = make_pipeline()
        settings = pipeline.settings
        changes = {
            "method": method or settings.method,
            "retraining": Retraining(**FINETUNING | {"epochs": EPOCHS, "warmup": 0.1}),
            "evaluation": settings.evaluation.model_copy(update={"rows": 6, "shard": 4}),
        }
        pipeline.settings = settings.model_copy(update=changes)
        outcome = pipeline.find_ticket(ignore)
        stage = Store(store_url).recipe(StageKey("retrain", outcome.retrain_digest, outcome.retrain_digest))
        pipeline.stages.clear()
        return pipeline, stage, outcome

    return train


@pytest.mark.parametrize("method", [None, SINGLE_WEIGHTS], ids=["heads and neurons", "single weights"])
def test_the_last_epoch_is_the_ticket_to_the_last_bit_and_those_before_are_attacked(trained, method, store_url):
    pipeline, stage, outcome = trained(method)
    found = pipeline.after_every_epoch(stage, outcome)
    store = Store(store_url)
    [kept] = [store.find("epochs", noted.digest) for noted in pipeline.stages if noted.name == "epochs"]
    own = store.find("retrain", outcome.retrain_digest)
    files = [store.read(kept, f"ticket-00{epoch}.safetensors") for epoch in (1, 2, 3)]
    assert sorted(kept.files) == ["ticket-001.safetensors", "ticket-002.safetensors", "ticket-003.safetensors"]
    assert files[-1] == store.read(own, "ticket.safetensors")
    assert len(set(files)) == EPOCHS
    assert kept.history == own.history, "the same epochs, under the schedule of the whole training"
    # Clean accuracy of each model as the training itself had seen it; two shards of each of the first two epochs.
    assert [one.clean.accuracy for one in found] == [record["clean"] for record in own.history]
    assert [one.epoch for one in found] == [1, 2, 3]
    assert (found[-1].clean, found[-1].attacks) == (outcome.clean, outcome.attacks)
    assert all(one.attacks[0].sample == outcome.attacks[0].sample for one in found)
    assert [noted.name for noted in pipeline.stages] == ["epochs", "retrain", *["evaluate"] * 2, *["attack"] * 4]


def test_a_last_epoch_that_came_out_differently_is_measured_itself(trained, monkeypatch):
    pipeline, stage, outcome = trained()
    monkeypatch.setattr("tune_tickets.methods.base._sha256", lambda result, file: file)
    found = pipeline.after_every_epoch(stage, outcome)
    assert [one.epoch for one in found] == [1, 2, 3]
    assert [noted.name for noted in pipeline.stages].count("evaluate") == EPOCHS
    assert found[-1].clean == outcome.clean, "it is the same model after all"


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_epochs_kept_before_a_kill_are_taken_over_if_they_are_still_there(trained, store_url, monkeypatch, lost):
    pipeline, stage, outcome = trained()
    tell, steps = StageContext.progress, []

    def cut_in_the_third_epoch(context, done, total):
        tell(context, done, total)
        if context.stage.name == "epochs" and done == 20:  # an epoch has 8 steps
            raise Cut

    monkeypatch.setattr(StageContext, "progress", cut_in_the_third_epoch)
    with pytest.raises(Cut):
        pipeline.after_every_epoch(stage, outcome)
    [first] = [path for path in Store(store_url).files() if path.endswith("ticket-001.safetensors")]
    if lost:
        Store(store_url).remove(f"{store_url}/{first}")

    def noted(context, done, total):
        if context.stage.name == "epochs":
            steps.append(done)
        tell(context, done, total)

    monkeypatch.setattr(StageContext, "progress", noted)
    found = pipeline.after_every_epoch(stage, outcome)
    kept = Store(store_url).find("epochs", pipeline.stages[0].digest)
    attempts = {pointer.split("/")[0] for pointer in kept.files.values()}
    assert steps[0] == 1 if lost else 20 - LEAST_STEPS < steps[0] <= 20, "all afresh, or at most a mini-epoch"
    assert len(attempts) == (1 if lost else 2)
    assert found[-1].clean == outcome.clean
    assert [one.clean.accuracy for one in found] == [record["clean"] for record in kept.history]
