"""Winner and dense control after every epoch: which models, what is skipped and why, what a failure costs."""

import pytest

from tests.reports.conftest import make_outcome, make_trial
from tests.search.test_gallery import Folder
from tune_tickets.engine.runner import NotStored, StoreReader
from tune_tickets.engine.stage import StageKey
from tune_tickets.results.records import ControlRecord, EpochFigures
from tune_tickets.search import controls as epochs
from tune_tickets.search.controls import AS_IT_IS, LOST, epoch_records
from tune_tickets.search.progress import Note, TrialFinished, TrialStarted
from tune_tickets.search.trainable import TrialContext

MODEL = {"seed": 0, "model": {}, "model_fingerprint": "m", "max_length": 8}
DATA = StageKey("data", "ab", "ab")


class FakeFlow:
    """Fails for the stage that has `fails` in its retraining."""

    def __init__(self, settings, world, runner) -> None:
        self.settings, self.stages, self._runner = settings, [], runner

    def after_every_epoch(self, stage, final):
        if isinstance(self._runner, StoreReader):
            raise NotStored("nothing was measured before")
        if stage.retraining.get("fails"):
            raise RuntimeError("out of memory")
        return tuple(EpochFigures(epoch=epoch, clean=final.clean, attacks=final.attacks) for epoch in (1, 2))


@pytest.fixture
def folder(tiny_yaml, tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "Flow", FakeFlow)
    return Folder(tiny_yaml, tmp_path / "out")


@pytest.fixture
def measured(folder):
    def records(winner, dense, ended=False):
        context = TrialContext(folder.experiment, None, folder.results.store_url, "broker")
        best = make_trial(3, outcome=winner, params={})
        controls = [
            ControlRecord(kind="random", seed=0, outcome=dense, stages=()),
            ControlRecord(kind="dense", seed=0, title="finetune", outcome=dense, stages=()),
        ]
        events = []
        return epoch_records(context, None, best, controls, events.append, lambda: ended), events

    return records


def trained(folder, **inputs):
    """An outcome whose model the stage with these inputs has trained."""
    return make_outcome().model_copy(
        update={"retrain_digest": folder.keep("retrain", MODEL | inputs, upstream={"data": DATA}).digest}
    )


def test_the_winner_and_the_dense_control_are_attacked_after_every_epoch(folder, measured):
    found, events = measured(trained(folder, retraining={"epochs": 2}), trained(folder, retraining={"epochs": 3}))
    assert [(record.model, record.title) for record in found] == [("t3", "earlyrobust"), ("dense", "finetune")]
    assert [one.epoch for one in found[0].epochs] == [1, 2]
    begun = {event.number for event in events if isinstance(event, TrialStarted)}
    assert begun == {"epochs of t3", "epochs of dense"}


def test_what_was_not_retrained_or_cannot_be_told_is_left_out_with_the_reason(folder, measured):
    found, events = measured(trained(folder), make_outcome())
    assert [(record.model, record.epochs, record.left_out) for record in found] == [
        ("t3", (), AS_IT_IS),
        ("dense", (), LOST),
    ]
    assert {event.text.split(" was")[0] for event in events if isinstance(event, Note)} == {"t3", "dense"}


def test_one_that_fails_leaves_the_other_and_none_is_begun_at_the_end(folder, measured):
    failing, other = trained(folder, retraining={"fails": 1}), trained(folder, retraining={})
    found, events = measured(failing, other)
    assert [record.model for record in found] == ["dense"]
    [failed] = [event for event in events if isinstance(event, TrialFinished) and event.status == "failed"]
    assert (failed.number, failed.note) == ("epochs of t3", "out of memory")
    assert measured(other, other, ended=True) == ([], [])
