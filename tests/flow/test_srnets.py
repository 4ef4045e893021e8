"""SRNets through the stages: three paradigms, masks and magnitudes, any loss, and when pruning starts."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, load_file

from tests.flow.conftest import ignore
from tune_tickets.config import load_experiment
from tune_tickets.config.training import Retraining
from tune_tickets.engine.execution import execute
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow
from tune_tickets.methods.srnets import SRNets
from tune_tickets.results.records import cost_of
from tune_tickets.search.preflight import preflight
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.training.schedule import LEAST_STEPS

# 128 training rows: 8 steps of 16 an epoch.
FAST = {"epochs": 2.0, "batch_size": 16, "learning_rate": 3e-3, "eval_interval": 4, "sparsity": 0.4}
FINETUNING = {"epochs": 2, "batch_size": 16, "learning_rate": 3e-3, "weight_decay": 0.0}
POE = {"loss": "poe", "bias": {"features": "marker", "markers": ["good", "bad"]}}
COUNT = 2 * (4 * 32 * 32 + 2 * 32 * 48) + 2 * 32
"""Masked weights of the tiny backbone: Q, K, V, AO, in, out of two layers and the classifier, 14,400."""


def srnets(**changes: object) -> SRNets:
    return SRNets.model_validate({**FAST, "finetuning": FINETUNING, **changes})


def names(pipeline: Flow) -> list[str]:
    return [stage.name for stage in pipeline.stages]


def weights_of(store_url: str, name: str, digest: str) -> dict[str, torch.Tensor]:
    store = Store(store_url)
    result = store.find(name, digest)
    if name == "retrain":
        return dict(Ticket.from_bytes(store.read(result, "ticket.safetensors"), "x").weights)
    return load(store.read(result, "weights.safetensors"))


def mask_of(store_url: str, key) -> UnstructuredMask:
    store = Store(store_url)
    return UnstructuredMask.from_bytes(store.read(store.find("draw", key.digest), "mask.safetensors"))


def masked(weights: dict[str, torch.Tensor], mask: UnstructuredMask) -> dict[str, torch.Tensor]:
    return {name: tensor * mask.kept[name] if name in mask.kept else tensor for name, tensor in weights.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def pretrained(folder) -> dict[str, torch.Tensor]:
    return {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}


def test_a_subnetwork_of_the_fine_tuned_model_is_its_weights_under_the_mask_and_costs_no_training_of_its_own(
    pipeline_of, store_url
):
    pipeline = pipeline_of(srnets())
    pipeline.world = replace(pipeline.world, threats=())
    outcome = pipeline.find_ticket(ignore)
    assert names(pipeline) == ["retrain", "srnets_masks", "draw", "retrain", "evaluate"]
    mask = mask_of(store_url, pipeline.stages[2])
    assert mask.weights_cut() == 2 * (4 * 410 + 2 * 615) + 26, "40% of each matrix, rounded up"
    finetuned = weights_of(store_url, "retrain", pipeline.stages[0].digest)
    assert same(weights_of(store_url, "retrain", outcome.retrain_digest), masked(finetuned, mask))
    assert outcome.sparsity.weights == pytest.approx(100 * mask.weights_cut() / COUNT)
    cost = cost_of(pipeline.stages, outcome.retrain_digest)
    assert (cost.retraining.passes, cost.search.passes) == (0.0, 4.0), "2 epochs of fine-tuning and 2 of masks"
    record = Store(store_url).find("srnets_masks", pipeline.stages[1].digest)
    assert [entry["step"] for entry in record.history] == [1, 2, 3, 4]


def test_a_random_control_cuts_as_much_of_every_matrix_from_the_same_weights(pipeline_of, store_url):
    pipeline, control = pipeline_of(srnets()), pipeline_of(srnets())
    ticket = pipeline.draw(ignore)
    control.world = replace(control.world, threats=())
    outcome = control.random_control(ticket, 0, ignore)
    assert names(control) == ["draw", "retrain", "retrain", "evaluate"]
    random, found = mask_of(store_url, control.stages[0]), mask_of(store_url, ticket)
    assert random.sparsities() == found.sparsities()
    assert random.digest() != found.digest()
    finetuned = weights_of(store_url, "retrain", pipeline.stages[0].digest)
    assert same(weights_of(store_url, "retrain", outcome.retrain_digest), masked(finetuned, random))


def test_in_isolation_the_same_mask_training_serves_and_the_pre_trained_weights_are_retrained(
    pipeline_of, store_url, tiny_backbone
):
    found = pipeline_of(srnets()).draw(ignore)
    pipeline = pipeline_of(srnets(paradigm="isolated"))
    pipeline.world = replace(pipeline.world, threats=())
    outcome = pipeline.find_ticket(ignore)
    assert [stage.cached for stage in pipeline.stages] == [True, True, True, False, False]
    assert outcome.mask == found.content
    # This retraining reaches no weight that is not 0, so what it ends with is what it started from.
    weights, mask = weights_of(store_url, "retrain", outcome.retrain_digest), mask_of(store_url, found)
    for name, tensor in pretrained(tiny_backbone).items():
        if tensor.ndim > 1:
            assert torch.equal(weights[name], tensor * mask.kept.get(name, torch.ones(1))), name
    assert cost_of(pipeline.stages, outcome.retrain_digest).retraining.passes == 1.0


def test_a_subnetwork_of_the_pre_trained_model_needs_no_fine_tuning(pipeline_of, store_url, tiny_backbone):
    pipeline = pipeline_of(srnets(paradigm="pretrained", pooler=True))
    ticket = pipeline.draw(ignore)
    trained = pipeline.run(pipeline.method.training(pipeline, ticket, None), ignore)
    assert names(pipeline) == ["srnets_masks", "draw", "retrain"]
    mask = mask_of(store_url, ticket)
    assert "bert.pooler.dense.weight" in mask.kept
    weights = weights_of(store_url, "retrain", trained.key.digest)
    assert same({name: weights[name] for name in pretrained(tiny_backbone)}, masked(pretrained(tiny_backbone), mask))


def test_magnitude_pruning_cuts_at_once_goes_on_training_and_trains_after_the_last_cut(pipeline_of, store_url):
    low, high = pipeline_of(srnets(pruning="imp", sparsity=0.2)), pipeline_of(srnets(pruning="imp", sparsity=0.3))
    low.draw(ignore)
    ticket = high.draw(ignore)
    trained = high.run(high.method.training(high, ticket, None), ignore)
    assert names(high) == ["retrain", "draw", *["srnets_imp", "draw"] * 2, "srnets_imp", "retrain"]
    assert [stage.cached for stage in high.stages] == [True] * 4 + [False] * 4
    store = Store(store_url)
    finetuned = weights_of(store_url, "retrain", high.stages[0].digest)
    first = mask_of(store_url, high.stages[1])
    assert first.weights_cut() == 2 * (4 * 103 + 2 * 154) + 7, "10% of each matrix, rounded up"
    for name, kept in first.kept.items():
        assert finetuned[name][~kept].abs().max() <= finetuned[name][kept].abs().min()
    # 0.1 of 16 steps is 1.6, so the cuts are after 0, 2, 3 steps and the end after 5.
    passes = [round(stage.training.passes * 8) for stage in high.stages if stage.name == "srnets_imp"]
    assert passes == [2, 1, 2]
    mask = mask_of(store_url, ticket)
    assert mask.weights_cut() == 2 * (4 * 308 + 2 * 461) + 20
    last = weights_of(store_url, "srnets_imp", high.stages[6].digest)
    assert same(weights_of(store_url, "retrain", trained.key.digest), last)
    for name, kept in mask.kept.items():
        assert not bool(last[name][~kept].any())
        assert not torch.equal(last[name], finetuned[name] * kept)
    assert store.find("srnets_imp", high.stages[2].digest).history[0]["weights_cut"] == pytest.approx(
        100 * first.weights_cut() / COUNT
    )


def test_a_random_control_of_magnitude_pruning_trains_as_long_after_its_cut(pipeline_of, store_url):
    method = srnets(pruning="imp", sparsity=0.2)
    ticket = pipeline_of(method).draw(ignore)
    control = pipeline_of(method)
    control.world = replace(control.world, threats=())
    outcome = control.random_control(ticket, 1, ignore)
    assert names(control) == ["draw", "retrain", "srnets_imp", "retrain", "evaluate"]
    random, weights = mask_of(store_url, control.stages[0]), weights_of(store_url, "retrain", outcome.retrain_digest)
    alive = sum(int((weights[name][kept] != 0).sum()) for name, kept in random.kept.items())
    assert alive == COUNT - random.weights_cut(), "cut from whole weights, not from those the ticket had lost"


def test_rewound_magnitude_pruning_starts_from_the_pre_trained_weights_and_ends_with_them(
    pipeline_of, store_url, tiny_backbone
):
    pipeline = pipeline_of(srnets(pruning="imp_rewind", paradigm="isolated", sparsity=0.2))
    pipeline.world = replace(pipeline.world, threats=())
    outcome = pipeline.find_ticket(ignore)
    assert names(pipeline) == ["draw", "srnets_imp", "draw", "retrain", "evaluate"]
    source, first = pretrained(tiny_backbone), mask_of(store_url, pipeline.stages[0])
    name = "bert.encoder.layer.0.output.dense.weight"
    assert source[name][~first.kept[name]].abs().max() <= source[name][first.kept[name]].abs().min()
    mask = mask_of(store_url, pipeline.stages[2])
    weights = weights_of(store_url, "retrain", outcome.retrain_digest)
    assert torch.equal(weights[name], source[name] * mask.kept[name])


@pytest.mark.parametrize(
    "changes", [{}, {"pruning": "imp"}, {"pruning": "imp_rewind", "paradigm": "isolated"}, {"paradigm": "pretrained"}]
)
def test_every_pruning_honours_its_debiasing_loss(pipeline_of, changes):
    plain, debiased = (
        pipeline_of(srnets(sparsity=0.2, **changes, debiasing=loss)).draw(ignore) for loss in ({"loss": "ce"}, POE)
    )
    assert plain.content != debiased.content


def test_looks_are_measured_by_the_metric_asked_for(pipeline_of, store_url):
    looks = {}
    for metric in ("accuracy", "weighted_f1"):
        # Every weight is cut but for rounding, so the model answers the same for all 48 rows, half of each label.
        pipeline = pipeline_of(srnets(sparsity=0.999, eval_metric=metric))
        pipeline.draw(ignore)
        looks[metric] = Store(store_url).find("srnets_masks", pipeline.stages[1].digest).history[-1]["clean"]
    assert looks["accuracy"] == 50.0
    # F1 of the one label is 2 x 24 / (24 + 48), of the other 0.
    assert looks["weighted_f1"] == pytest.approx(100 / 3)


def test_the_first_loss_is_that_of_the_fine_tuning(pipeline_of):
    method = srnets()
    plain = pipeline_of(method)
    other = pipeline_of(srnets(finetuning={**FINETUNING, "debiasing": POE}))
    plain.draw(ignore)
    other.draw(ignore)
    assert names(other) == ["bias", "retrain", "srnets_masks", "draw"]
    assert other.stages[1].digest != plain.stages[0].digest


def test_pruning_starts_after_so_many_steps_of_the_fine_tuning_whose_schedule_stays(pipeline_of, store_url):
    found = {}
    for steps in (5, 16):
        pipeline = pipeline_of(srnets(start={"at": "steps", "steps": steps}))
        leave = pipeline.settings.method.start.leave_inputs()
        stage = pipeline.retrain(None, pipeline.settings.method.finetuning, leave=leave)
        found[steps] = pipeline.run(stage, ignore)
    whole = pipeline.run(pipeline.retrain(None, pipeline.settings.method.finetuning), ignore)
    assert found[5].record["training"]["passes"] == 5 * 16 / 128
    assert found[5].history == []
    last = weights_of(store_url, "retrain", found[16].key.digest)
    assert same(last, weights_of(store_url, "retrain", whole.key.digest))
    assert found[16].key.digest != whole.key.digest
    assert not same(weights_of(store_url, "retrain", found[5].key.digest), last)


def test_pruning_starts_when_the_fine_tuning_has_stopped_to_improve_also_if_it_was_cut_off(
    pipeline_of, store_url, tmp_path, experiment
):
    # Nothing is above the first look by 99 points: looks at 3, 6 and 9 of 16 steps, the third ends it.
    start = {"at": "patience", "interval": 3, "patience": 2, "improvement": 99.0}
    pipeline = pipeline_of(srnets(start=start))
    method = pipeline.settings.method
    stage = pipeline.retrain(None, method.finetuning, leave=method.start.leave_inputs())
    whole = pipeline.run(stage, ignore)
    assert [record["step"] for record in whole.history if "look" in record] == [3, 6, 9]
    assert whole.record["training"]["passes"] == 9 * 16 / 128

    class Cut(Exception):
        pass

    def cut(done: int, total: int, records: int) -> None:
        if done == 9:
            raise Cut

    url = str(tmp_path / "cut")
    preflight(experiment, Store(url))
    resources = experiment.settings.resources
    with pytest.raises(Cut):
        execute(stage, resources, url, cut)
    assert Store(url).load_checkpoint(stage) is not None, "of the first epoch, after 8 steps"
    resumed = execute(stage, resources, url, lambda done, total, records: None)
    assert resumed.history == whole.history
    assert same(weights_of(url, "retrain", stage.digest), weights_of(store_url, "retrain", stage.digest))


def test_a_mask_training_that_was_cut_off_goes_on_and_ends_with_the_same_bits(
    pipeline_of, store_url, experiment, tmp_path
):
    method = srnets(init="soft", start_sparsity=0.2, debiasing=POE)
    whole = pipeline_of(method)
    drawn = whole.draw(ignore)
    wanted = Store(store_url).find("srnets_masks", whole.stages[-2].digest)
    url = str(tmp_path / "cut")
    preflight(experiment, Store(url))

    class Cut(Exception):
        pass

    class Stopping(LocalRunner):
        def run(self, stage, on_record=None):
            if stage.name != "srnets_masks":
                return super().run(stage, on_record)
            resources = experiment.settings.resources
            with pytest.raises(Cut):
                execute(stage, resources, url, cut)
            assert Store(url).load_checkpoint(stage) is not None
            return execute(stage, resources, url, lambda done, total, records: steps.append(done))

    def cut(done: int, total: int, records: int) -> None:
        if records == 3:
            raise Cut

    steps: list[int] = []
    other = pipeline_of(method, url)
    other.runner = Stopping(url, other.settings.resources)
    assert other.draw(ignore).content == drawn.content
    lost = 12 - min(step for step in steps if step)
    assert 0 <= lost < LEAST_STEPS, "no more than a mini-epoch is repeated"
    found = Store(url).find("srnets_masks", wanted.key.digest)
    assert found.history == wanted.history
    assert Store(url).read(found, "looks.safetensors") == Store(store_url).read(wanted, "looks.safetensors")


def test_ood_rows_join_the_mask_training(tiny_yaml, store_url):
    overrides = [
        "task.planted.markers=[x, z]",
        "task.planted.train_rows=16",
        "task.planted.rows.select=8",
        "task.planted.rows.report=8",
    ]
    experiment = load_experiment(tiny_yaml, [*overrides, "task.rows.train=112"])
    world = preflight(experiment, Store(store_url))
    assert world.ood_train is not None
    masks = {}
    for ood_rows in (False, True):
        changes = {"method": srnets(ood_rows=ood_rows), "retraining": Retraining(epochs=1)}
        settings = experiment.settings.model_copy(update=changes)
        pipeline = Flow(settings, world, LocalRunner(store_url, settings.resources))
        masks[ood_rows] = pipeline.draw(ignore).content
        record = Store(store_url).find("srnets_masks", pipeline.stages[1].digest)
        assert record.record["training"]["passes"] == 2.0
        # 112 rows are 7 steps of 16 an epoch, 128 are 8.
        assert len(record.history) == 4
    assert masks[False] != masks[True]
