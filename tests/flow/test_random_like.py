"""The method `random` with the layer-wise sparsity of a given ticket."""

import pytest

from tests.flow.conftest import ignore
from tests.flow.test_stages import ROBUSTT
from tune_tickets.config import load_experiment
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.methods.robustt import RobustT
from tune_tickets.search.preflight import preflight
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask


@pytest.fixture
def random_like(tiny_yaml, tmp_path):
    """The pipeline of a random ticket with its own store: it knows the other ticket only from its file."""

    def pipeline(path, seed=0, drawing=0.3) -> Flow:
        method = f"method={{kind: random, like: {path}, ticket_seed: {seed}, drawing: {{neurons: {drawing}}}}}"
        experiment = load_experiment(tiny_yaml, [method, "search.warm_starts=[]"])
        url = str(tmp_path / "random-store")
        return Flow(
            experiment.settings, preflight(experiment, Store(url)), LocalRunner(url, experiment.settings.resources)
        )

    return pipeline


def trained_file(pipeline: Flow, store_url, path):
    """The mask's key and the trained ticket as a file, as a search leaves it."""
    drawn = pipeline.draw(ignore)
    trained = pipeline.run(pipeline.retrain(drawn), ignore)
    path.write_bytes(Store(store_url).read(trained, "ticket.safetensors"))
    return drawn


def mask_of(pipeline: Flow, key, kind):
    store = Store(pipeline.runner.store_url)
    return kind.from_bytes(store.read(store.require(key), "mask.safetensors"))


def test_a_structured_ticket_gives_its_counts_of_every_layer(make_pipeline, store_url, random_like, tmp_path):
    found = make_pipeline()
    file = tmp_path / "found.safetensors"
    like = mask_of(found, trained_file(found, store_url, file), StructuredMask)
    pipeline = random_like(file)
    mask = mask_of(pipeline, pipeline.draw(ignore), StructuredMask)
    assert mask.heads_kept() == like.heads_kept()
    assert mask.neurons_kept() == like.neurons_kept()
    assert mask.digest() != like.digest()
    again, other = random_like(file, drawing=0.1), random_like(file, seed=1)
    assert again.draw(ignore).digest == pipeline.draw(ignore).digest
    assert other.draw(ignore).content != mask.digest()


def test_an_unstructured_ticket_gives_its_sparsity_of_every_matrix(experiment, world, store_url, random_like, tmp_path):
    settings = experiment.settings.model_copy(
        update={"method": RobustT.model_validate(ROBUSTT | {"sparsity": 0.5, "learning_rate": 0.5})}
    )
    found = Flow(settings, world, LocalRunner(store_url, settings.resources))
    file = tmp_path / "found.safetensors"
    like = mask_of(found, trained_file(found, store_url, file), UnstructuredMask)
    assert len(set(like.sparsities().values())) > 1
    pipeline = random_like(file)
    key = pipeline.draw(ignore)
    mask = mask_of(pipeline, key, UnstructuredMask)
    assert mask.sparsities() == like.sparsities()
    assert mask.digest() != like.digest()
    trained = pipeline.run(pipeline.retrain(key), ignore)
    assert trained.record["sparsity"]["weights"] == pytest.approx(50, abs=0.1)
