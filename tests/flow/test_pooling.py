"""A whole trial with mean pooling, on a sentence encoder."""

import json
import shutil

import pytest
import torch

from tests.flow.conftest import POINT, ignore
from tune_tickets.config import load_experiment
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.models.families.base import POOLING
from tune_tickets.models.loading import open_ticket
from tune_tickets.search.preflight import preflight
from tune_tickets.tickets.ticket import Ticket


@pytest.fixture
def flow(tiny_yaml, tiny_backbone, tmp_path, store_url):
    """On a copy of the tiny backbone that says it was made for the mean."""
    folder = tmp_path / "sentences"
    shutil.copytree(tiny_backbone, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))

    def make(*overrides):
        experiment = load_experiment(tiny_yaml, [f"model.source={folder}", *overrides])
        settings = experiment.at(POINT)
        return Flow(settings, preflight(experiment, Store(store_url)), LocalRunner(store_url, settings.resources))

    return make


def test_every_stage_of_a_trial_follows_the_encoder(flow, store_url):
    mean = flow()
    assert mean.world.pooling == "mean"
    outcome = mean.find_ticket(ignore)
    record = next(stage for stage in mean.stages if stage.digest == outcome.retrain_digest)
    result = mean.run(mean.retrain(mean.draw(ignore)), ignore)
    assert result.key.digest == record.digest
    ticket = Ticket.from_bytes(Store(store_url).read(result, "ticket.safetensors"), "x")
    assert ticket.metadata.config[POOLING] == "mean"
    assert not [name for name in ticket.weights if "pooler" in name]
    model = open_ticket(ticket, "x").model
    ids = torch.tensor([[2, 7, 8, 3]])
    with torch.no_grad():
        whole = model(input_ids=ids, output_hidden_states=True)
        assert (whole.logits - model.classifier(whole.hidden_states[-1].mean(dim=1))).abs().max() < 1e-5
    assert outcome.clean.accuracy > 60
    assert {attack.rows for attack in outcome.attacks} == {8}


def test_stages_of_first_and_mean_are_never_shared(flow):
    mean, first, auto = flow("model.pooling=mean"), flow("model.pooling=first"), flow()
    assert mean.retrain(None).digest == auto.retrain(None).digest != first.retrain(None).digest
