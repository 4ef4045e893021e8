"""The stages of a trial on a tiny real model: sharing, extension, determinism."""

import pytest
import torch

from tests.flow.conftest import ignore
from tune_tickets.engine.store import Store
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket


def search_of(pipeline):
    return pipeline.run(pipeline.method.find(pipeline), ignore)


def trajectory_of(store: Store, result) -> Trajectory:
    return Trajectory.from_bytes(store.read(result, "trajectory.safetensors"))


def test_trials_that_differ_in_ratio_or_gamma_share_one_trajectory(make_pipeline, store_url):
    near = search_of(make_pipeline(method__gamma=0.4))
    assert near.record["computed_mini_epochs"] == near.record["stop"]
    same = search_of(make_pipeline(method__gamma=0.4, method__drawing__neurons=0.31))
    far = search_of(make_pipeline(method__gamma=0.2, method__drawing__neurons=0.5))
    assert near.key.digest == same.key.digest == far.key.digest
    total = sum(result.record["computed_mini_epochs"] for result in (near, same, far))
    assert total == max(result.record["stop"] for result in (near, same, far))
    store = Store(store_url)
    short, long = (trajectory_of(store, result) for result in sorted((near, far), key=lambda r: r.record["stop"]))
    assert torch.equal(short.heads, long.heads[: len(short)])
    assert torch.equal(short.neurons, long.neurons[: len(short)])


def test_an_extended_trajectory_equals_one_computed_at_a_stretch(make_pipeline, store_url, experiment, tmp_path):
    from tune_tickets.engine.runner import LocalRunner
    from tune_tickets.methods.base import Flow
    from tune_tickets.search.preflight import preflight

    search_of(make_pipeline(method__gamma=0.4))
    pieced = search_of(make_pipeline(method__gamma=0.0))
    elsewhere = str(tmp_path / "other-store")
    settings = make_pipeline(method__gamma=0.0).settings
    world = preflight(experiment, Store(elsewhere))
    whole = search_of(Flow(settings, world, LocalRunner(elsewhere, settings.resources)))
    assert not pieced.record["converged"]
    assert pieced.record["stop"] == pieced.record["mini_epochs"] == whole.record["stop"]
    one, other = trajectory_of(Store(store_url), pieced), trajectory_of(Store(elsewhere), whole)
    assert torch.equal(one.heads, other.heads)
    assert torch.equal(one.neurons, other.neurons)
    assert pieced.history == whole.history


def test_the_same_settings_give_the_same_ticket_bit_for_bit(make_pipeline, store_url, experiment, tmp_path):
    from tune_tickets.engine.runner import LocalRunner
    from tune_tickets.methods.base import Flow
    from tune_tickets.search.preflight import preflight

    contents = []
    for name in ("one", "two"):
        url = str(tmp_path / name)
        settings = make_pipeline().settings
        pipeline = Flow(settings, preflight(experiment, Store(url)), LocalRunner(url, settings.resources))
        trained = pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)
        contents.append((Store(url).read(trained, "ticket.safetensors"), trained.history))
    assert contents[0] == contents[1]


def test_equal_masks_share_retraining_however_they_were_drawn(make_pipeline):
    # 0.3 and 0.302 of 96 neurons both cut 29.
    first = make_pipeline(method__gamma=0.4, method__drawing__neurons=0.3)
    second = make_pipeline(method__gamma=0.4, method__drawing__neurons=0.302)
    one, other = first.draw(ignore), second.draw(ignore)
    assert one.digest != other.digest
    assert one.content == other.content
    assert first.retrain(one).digest == second.retrain(other).digest


def test_a_ticket_starts_from_the_pre_trained_weights_and_the_dense_classifier(make_pipeline, store_url):
    pipeline = make_pipeline()
    still = pipeline.settings.retraining.model_copy(update={"learning_rate": 1e-12})
    pipeline.settings = pipeline.settings.model_copy(update={"retraining": still})
    trained = pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)
    dense = pipeline.run(pipeline.retrain(None), ignore)
    store = Store(store_url)
    ticket, whole = (Ticket.from_bytes(store.read(result, "ticket.safetensors"), "x") for result in (trained, dense))
    assert torch.allclose(ticket.weights["classifier.weight"], whole.weights["classifier.weight"], atol=1e-8)
    kept = ticket.mask.neurons[0]
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    assert torch.allclose(ticket.weights[name], whole.weights[name][kept], atol=1e-8)
    assert trained.record["sparsity"]["heads"] == 25.0


def test_a_random_control_has_the_same_counts_in_every_layer(make_pipeline, store_url):
    from tests.stages import Stage

    pipeline = make_pipeline()
    like = pipeline.draw(ignore)
    shuffled = pipeline.run(Stage("draw", {"kind": "shuffled", "ticket_seed": 7}, {"like": like}), ignore)
    store = Store(store_url)
    drawn = StructuredMask.from_bytes(store.read(store.require(like), "mask.safetensors"))
    random = StructuredMask.from_bytes(store.read(shuffled, "mask.safetensors"))
    assert random.heads_kept() == drawn.heads_kept()
    assert random.neurons_kept() == drawn.neurons_kept()
    assert random.digest() != drawn.digest()


def test_retraining_resumed_from_a_checkpoint_ends_with_the_same_bits(make_pipeline, store_url, tmp_path, experiment):
    """A stage that is cut off after some epochs and run again must not show it."""
    from tune_tickets.engine import execution
    from tune_tickets.engine.runner import LocalRunner
    from tune_tickets.methods.base import Flow
    from tune_tickets.methods.bodies import retrain
    from tune_tickets.search.preflight import preflight

    whole = make_pipeline()
    wanted = whole.run(whole.retrain(None), ignore)
    url = str(tmp_path / "cut")
    settings = whole.settings
    resources = settings.resources
    stage = Flow(settings, preflight(experiment, Store(url)), LocalRunner(url, resources)).retrain(None)

    class Cut(Exception):
        pass

    def cut(done: int, total: int, records: int) -> None:
        if records == 4:
            raise Cut

    with pytest.raises(Cut):
        execution.execute(stage, resources, url, cut)
    assert Store(url).load_checkpoint(stage) is not None
    resumed = execution.execute(stage, resources, url, lambda *progress: None)
    assert resumed.history == wanted.history
    assert Store(url).read(resumed, retrain.TICKET_FILE) == Store(store_url).read(wanted, retrain.TICKET_FILE)
    assert Store(url).load_checkpoint(stage) is None


ROBUSTT = {
    "kind": "robustt",
    "epochs": 1.0,
    "batch_size": 16,
    "adversary": {"kind": "freelb", "steps": 2},
    "finetuning": {"epochs": 8, "batch_size": 16, "learning_rate": 3e-3},
}


@pytest.fixture
def make_robustt(experiment, world, store_url):
    """A RobustT pipeline on the tiny world."""
    from tune_tickets.engine.runner import LocalRunner
    from tune_tickets.methods.base import Flow
    from tune_tickets.methods.robustt import RobustT

    def pipeline(**changes):
        method = RobustT.model_validate(ROBUSTT | changes)
        settings = experiment.settings.model_copy(update={"method": method})
        return Flow(settings, world, LocalRunner(store_url, settings.resources))

    return pipeline


def test_one_mask_training_serves_every_sparsity(make_robustt, store_url):
    low, high = make_robustt(sparsity=0.1), make_robustt(sparsity=0.6)
    tickets = [low.draw(ignore), high.draw(ignore)]
    assert [stage.name for stage in high.stages] == ["retrain", "masks", "draw"]
    assert [stage.cached for stage in high.stages] == [True, True, False]
    assert low.stages[1].digest == high.stages[1].digest
    assert tickets[0].content != tickets[1].content


def test_an_unstructured_ticket_keeps_its_zeros_through_training(make_robustt, store_url):
    pipeline = make_robustt(sparsity=0.6)
    drawn = pipeline.draw(ignore)
    trained = pipeline.run(pipeline.retrain(drawn), ignore)
    store = Store(store_url)
    ticket = Ticket.from_bytes(store.read(trained, "ticket.safetensors"), "x")
    from tune_tickets.tickets.unstructured import UnstructuredMask

    mask = UnstructuredMask.from_bytes(store.read(store.require(drawn), "mask.safetensors"))
    masked = sum(kept.numel() for kept in mask.kept.values())
    zeros = sum(int((ticket.weights[name] == 0).sum()) for name in mask.kept)
    assert zeros == mask.weights_cut()
    assert trained.record["sparsity"]["weights"] == pytest.approx(60.0, abs=100.0 / masked)
    dense = trained.record["sparsity"]["parameters_dense"]
    assert trained.record["sparsity"]["parameters"] == dense - mask.weights_cut()


def test_structured_masks_of_robustt_are_drawn_as_heads_and_neurons(make_robustt, store_url):
    pipeline = make_robustt(sparsity=0.25, grouping="structured")
    drawn = pipeline.draw(ignore)
    store = Store(store_url)
    mask = StructuredMask.from_bytes(store.read(store.require(drawn), "mask.safetensors"))
    assert (mask.heads_sparsity, mask.neurons_sparsity) == (0.25, 0.25)


def test_the_random_control_of_an_unstructured_ticket_is_as_sparse_in_every_matrix(make_robustt, store_url):
    from tests.stages import Stage
    from tune_tickets.tickets.unstructured import UnstructuredMask

    pipeline = make_robustt(sparsity=0.5)
    like = pipeline.draw(ignore)
    random = pipeline.run(Stage("draw", {"kind": "shuffled", "ticket_seed": 1}, {"like": like}), ignore)
    store = Store(store_url)
    one, other = (
        UnstructuredMask.from_bytes(store.read(result, "mask.safetensors")) for result in (store.require(like), random)
    )
    assert one.sparsities() == other.sparsities()
    assert one.digest() != other.digest()
