"""The world of a trial on the tiny backbone, and stages computed in this process."""

from pathlib import Path

import pytest

from tune_tickets.config import Experiment, load_experiment
from tune_tickets.config.section import Section
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow, World
from tune_tickets.search.preflight import preflight

POINT = {"method.gamma": 0.2, "method.drawing.heads": 0.25, "method.drawing.neurons": 0.3}


@pytest.fixture
def experiment(tiny_yaml: Path) -> Experiment:
    return load_experiment(tiny_yaml)


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def world(experiment: Experiment, store_url: str) -> World:
    return preflight(experiment, Store(store_url))


@pytest.fixture
def make_pipeline(experiment: Experiment, world: World, store_url: str):
    def pipeline(**changes: object) -> Flow:
        settings = experiment.at(POINT | {name.replace("__", "."): value for name, value in changes.items()})
        return Flow(settings, world, LocalRunner(store_url, settings.resources))

    return pipeline


@pytest.fixture
def pipeline_of(experiment: Experiment, world: World, store_url: str):
    """A pipeline of any method and ablation; retraining leaves weights as they are, to the last bit."""
    from tune_tickets.config.training import Ablation, Retraining

    def pipeline(method: Section, store: str | None = None, **ablation: object) -> Flow:
        # Adam's step of 1e-30 is below the precision of any weight that is not 0.
        still = Retraining(epochs=1, batch_size=64, learning_rate=1e-30, weight_decay=0.0)
        changes = {"method": method, "ablation": Ablation(**ablation), "retraining": still}
        settings = experiment.settings.model_copy(update=changes)
        return Flow(settings, world, LocalRunner(store or store_url, settings.resources))

    return pipeline


def ignore(record: dict[str, object]) -> None:
    """For pipelines whose records are not looked at."""
