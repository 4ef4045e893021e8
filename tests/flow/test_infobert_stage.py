"""InfoBERT as the retraining of dense models and of both kinds of ticket."""

import pytest
import torch

from tests.flow.conftest import ignore
from tests.flow.test_stages import ROBUSTT
from tune_tickets.config.training import Adversary, Regulariser, Retraining
from tune_tickets.engine import execution
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageResult
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.methods.finetune import FineTune
from tune_tickets.methods.robustt import RobustT
from tune_tickets.search.preflight import preflight
from tune_tickets.tickets.ticket import Ticket

INFOBERT = Retraining(
    epochs=3,
    batch_size=16,
    learning_rate=3e-3,
    adversary=Adversary(kind="freelb", steps=2),
    regulariser=Regulariser(critic_width=8),
)
PLAIN = INFOBERT.model_copy(update={"regulariser": Regulariser(kind="none")})


@pytest.fixture
def make(experiment, world, store_url):
    def pipeline(method=None, retraining=INFOBERT) -> Flow:
        changes = {"retraining": retraining} | ({"method": method} if method is not None else {})
        settings = experiment.settings.model_copy(update=changes)
        return Flow(settings, world, LocalRunner(store_url, settings.resources))

    return pipeline


def trained(pipeline: Flow) -> StageResult:
    return pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)


def ticket_of(store_url: str, result: StageResult) -> Ticket:
    return Ticket.from_bytes(Store(store_url).read(result, "ticket.safetensors"), "x")


def test_infobert_trains_another_model_and_leaves_no_critic_in_the_ticket(make, store_url):
    one = ticket_of(store_url, trained(make(FineTune())))
    other = ticket_of(store_url, trained(make(FineTune(), PLAIN)))
    assert {name: tensor.shape for name, tensor in one.weights.items()} == {
        name: tensor.shape for name, tensor in other.weights.items()
    }
    assert not torch.equal(one.weights["classifier.weight"], other.weights["classifier.weight"])


def test_infobert_retrains_a_structured_ticket(make, store_url):
    result = trained(make())
    assert result.record["sparsity"]["heads"] > 0
    assert ticket_of(store_url, result).mask.heads_sparsity == result.record["sparsity"]["heads"] / 100


def test_infobert_keeps_the_zeros_of_an_unstructured_ticket(make, store_url):
    result = trained(make(RobustT.model_validate(ROBUSTT | {"sparsity": 0.5})))
    weight = ticket_of(store_url, result).weights["bert.encoder.layer.0.intermediate.dense.weight"]
    assert 0.2 < float((weight == 0).double().mean()) < 0.8
    assert result.record["sparsity"]["weights"] == pytest.approx(50, abs=0.1)


def test_cut_off_and_run_again_it_ends_with_the_same_bits(make, experiment, store_url, tmp_path):
    pipeline = make(FineTune())
    wanted = trained(pipeline)
    stage = pipeline.retrain(None)
    url = str(tmp_path / "cut")
    preflight(experiment, Store(url))
    resources = pipeline.settings.resources

    class Cut(Exception):
        pass

    def cut(done: int, total: int, records: int) -> None:
        if records == 2:
            raise Cut

    with pytest.raises(Cut):
        execution.execute(stage, resources, url, cut)
    assert Store(url).load_checkpoint(stage) is not None
    resumed = execution.execute(stage, resources, url, lambda *progress: None)
    assert resumed.history == wanted.history
    assert Store(url).read(resumed, "ticket.safetensors") == Store(store_url).read(wanted, "ticket.safetensors")
