"""A planted bias is found by its marker and removed from a dense fine-tuning and from a mask training."""

import pytest

from tests.flow.conftest import ignore
from tune_tickets.config import load_experiment
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.search.preflight import preflight

PLANTED = [
    "task.rows={train: 64, select: 32, report: 16}",
    "task.planted={markers: [film, plot], strength: 0.75, rows: {select: 32, report: 16}}",
    "retraining={epochs: 2, batch_size: 16, learning_rate: 1.0e-3}",
]
SRNETS = "{kind: srnets, epochs: 2.0, batch_size: 16, eval_interval: 2, finetuning: {epochs: 1, batch_size: 16}}"
POE = "debiasing={loss: poe, bias: {features: marker}}"


@pytest.mark.parametrize("where", ["retraining", "method"])
def test_poe_on_a_planted_task_runs_to_its_figures(where, tiny_yaml, store_url):
    method = "{kind: finetune}" if where == "retraining" else SRNETS
    before, after = (tiny_yaml.read_text(encoding="utf-8").split(mark)[part] for mark, part in SPLITS)
    tiny_yaml.write_text(f"{before}method: {method}\nretraining:{after}", encoding="utf-8")
    experiment = load_experiment(tiny_yaml, [*PLANTED, "search.warm_starts=[]", f"{where}.{POE}"])
    world = preflight(experiment, Store(store_url))
    pipeline = Flow(experiment.settings, world, LocalRunner(store_url, experiment.settings.resources))
    outcome = pipeline.find_ticket(ignore)
    (bias,) = (stage for stage in pipeline.stages if stage.name == "bias")
    # Fillers of the reviews are markers here, so that a few rows hold both or the other one too.
    assert 55 < bias.figures["train_accuracy"] < 90
    assert outcome.ood[0].name == "reversed"
    assert outcome.clean.rows == 32


SPLITS = (("method:\n", 0), ("retraining:", 1))
