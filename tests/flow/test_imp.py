"""IMP through the stages: sparsities share their rounds, rounds rewind, an interrupted round is resumed."""

from itertools import pairwise

import pytest
import torch
from safetensors.torch import load, load_file

from tests.flow.conftest import ignore
from tune_tickets.engine.store import Store
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.imp.rounds import Round
from tune_tickets.tickets.drawing import scores_from_bytes
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.training.schedule import LEAST_STEPS

FAST = {"epochs": 1.0, "batch_size": 16, "learning_rate": 3e-3}
COUNT = 2 * (4 * 32 * 32 + 2 * 32 * 48) + 32 * 32
"""Masked weights of the tiny backbone: 15,360."""


def stages(pipeline, name):
    return [stage for stage in pipeline.stages if stage.name == name]


def mask_of(store: Store, stage) -> UnstructuredMask:
    return UnstructuredMask.from_bytes(store.read(store.find("draw", stage.digest), "mask.safetensors"))


def scores_of(store: Store, stage) -> dict[str, torch.Tensor]:
    return scores_from_bytes(store.read(store.find("imp", stage.digest), "scores.safetensors"))


def pretrained(folder) -> dict[str, torch.Tensor]:
    return {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}


def test_every_round_cuts_its_share_and_a_higher_sparsity_goes_on_from_the_rounds_of_a_lower_one(
    pipeline_of, store_url
):
    low, high = pipeline_of(Imp(**FAST, sparsity=0.2)), pipeline_of(Imp(**FAST, sparsity=0.4))
    low.draw(ignore)
    ticket = high.draw(ignore)
    assert [stage.name for stage in high.stages] == ["imp", "draw"] * 4
    assert [stage.cached for stage in high.stages] == [True] * 4 + [False] * 4
    store = Store(store_url)
    masks = [mask_of(store, stage) for stage in stages(high, "draw")]
    assert [mask.weights_cut() for mask in masks] == [1536, 3072, 4608, 6144]
    for before, after in pairwise(masks):
        assert all(bool((before.kept[name] | ~after.kept[name]).all()) for name in before.kept)
    assert ticket.content == masks[-1].digest()


def test_a_sparsity_between_two_rounds_is_cut_by_the_training_of_the_next_one(pipeline_of, store_url):
    whole, between = pipeline_of(Imp(**FAST, sparsity=0.2)), pipeline_of(Imp(**FAST, sparsity=0.15))
    whole.draw(ignore)
    between.draw(ignore)
    assert [stage.cached for stage in stages(between, "imp")] == [True, True]
    assert [stage.digest for stage in stages(between, "imp")] == [stage.digest for stage in stages(whole, "imp")]
    assert mask_of(Store(store_url), between.stages[-1]).weights_cut() == 0.15 * COUNT


def test_one_step_for_everything_is_one_shot_pruning_of_the_fine_tuned_model(pipeline_of, store_url):
    pipeline = pipeline_of(Imp(**FAST, sparsity=0.6, step=1.0))
    pipeline.draw(ignore)
    assert [stage.name for stage in pipeline.stages] == ["imp", "draw"]
    assert mask_of(Store(store_url), pipeline.stages[-1]).weights_cut() == 0.6 * COUNT


def test_rewound_weights_are_the_pre_trained_ones_bit_for_bit(pipeline_of, store_url, tiny_backbone):
    # No step of this training reaches a weight, so what a round ends with is what it started from.
    pipeline = pipeline_of(Imp(**FAST | {"learning_rate": 1e-30}, weight_decay=0.0, sparsity=0.3))
    pipeline.draw(ignore)
    store, source = Store(store_url), pretrained(tiny_backbone)
    before = mask_of(store, stages(pipeline, "draw")[1])
    assert before.weights_cut() == 3072
    for name, score in scores_of(store, stages(pipeline, "imp")[2]).items():
        kept = before.kept[name]
        assert torch.equal(score[kept], source[name].abs()[kept])
        assert bool((score[~kept] == 0).all())


@pytest.mark.parametrize("rewinding", ["weights", "learning_rate"])
def test_the_second_round_starts_from_the_weights_that_rewinding_says(
    pipeline_of, store_url, rewinding, tiny_backbone, monkeypatch
):
    started = []

    class Watched(Round):
        def __init__(self, method, model, *others):
            started.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
            super().__init__(method, model, *others)

    monkeypatch.setattr("tune_tickets.methods.imp.rounds.Round", Watched)
    pipeline = pipeline_of(Imp(**FAST, sparsity=0.2, rewinding=rewinding))
    pipeline.draw(ignore)
    store = Store(store_url)
    first = stages(pipeline, "imp")[0]
    if rewinding == "weights":
        source = pretrained(tiny_backbone)
        assert all(torch.equal(started[1][name], tensor) for name, tensor in source.items())
        assert "weights.safetensors" not in store.find("imp", first.digest).files
    else:
        trained = load(store.read(store.find("imp", first.digest), "weights.safetensors"))
        assert started[1].keys() == trained.keys()
        assert all(torch.equal(started[1][name], tensor) for name, tensor in trained.items())
        assert all(torch.equal(trained[name].abs(), score) for name, score in scores_of(store, first).items())
        assert not torch.equal(started[0]["classifier.weight"], started[1]["classifier.weight"])


def test_within_each_matrix_all_matrices_are_equally_sparse(pipeline_of, store_url):
    pipeline = pipeline_of(Imp(**FAST, sparsity=0.25, step=0.125, ranking="matrix"))
    pipeline.draw(ignore)
    assert set(mask_of(Store(store_url), pipeline.stages[-1]).sparsities().values()) == {0.25}
    everywhere = pipeline_of(Imp(**FAST, sparsity=0.25, step=0.125))
    everywhere.draw(ignore)
    assert everywhere.stages[0].cached
    assert len(set(mask_of(Store(store_url), everywhere.stages[-1]).sparsities().values())) > 1


def test_records_of_later_rounds_stand_behind_those_of_earlier_ones(pipeline_of):
    seen = []
    pipeline_of(Imp(**FAST | {"epochs": 2.0}, sparsity=0.2)).draw(seen.append)
    rounds = [record for record in seen if record["stage"] == "imp"]
    assert [record["step"] for record in rounds] == [1, 2, 3, 4]
    assert [record["weights_cut"] for record in rounds] == pytest.approx([0, 0, 10, 10])
    again = []
    pipeline_of(Imp(**FAST | {"epochs": 2.0}, sparsity=0.2)).draw(again.append)
    assert again == seen


def test_a_round_that_was_cut_off_goes_on_and_ends_with_the_same_bits(pipeline_of, store_url, experiment, tmp_path):
    from tests.stages import Stage
    from tune_tickets.engine import execution
    from tune_tickets.search.preflight import preflight

    method = Imp(**FAST | {"epochs": 3.0}, sparsity=0.2)
    whole = pipeline_of(method)
    whole.draw(ignore)
    url = str(tmp_path / "cut")
    store, wanted = Store(store_url), stages(whole, "imp")[1]
    preflight(experiment, Store(url))
    one_round = pipeline_of(method.model_copy(update={"sparsity": 0.1}), url)
    drawn = one_round.draw(ignore)
    inputs = {**one_round.model_inputs(), "method": method.search_inputs()}
    stage = Stage("imp", inputs, {"data": one_round.world.data, "within": drawn})
    assert stage.digest == wanted.digest
    resources = experiment.settings.resources

    class Cut(Exception):
        pass

    def cut(done: int, total: int, records: int) -> None:
        if records == 3:
            raise Cut

    with pytest.raises(Cut):
        execution.execute(stage, resources, url, cut)
    assert Store(url).load_checkpoint(stage) is not None
    steps = []
    resumed = execution.execute(stage, resources, url, lambda done, total, records: steps.append(done))
    lost = 24 - min(step for step in steps if step)
    assert 0 <= lost < LEAST_STEPS, "no more than a mini-epoch is repeated"
    finished = store.find("imp", wanted.digest)
    assert resumed.history == finished.history
    assert Store(url).read(resumed, "scores.safetensors") == store.read(finished, "scores.safetensors")
    assert Store(url).load_checkpoint(stage) is None


def test_a_weight_that_was_cut_stays_cut_even_if_others_are_zero_too(pipeline_of, store_url):
    from tests.stages import Stage
    from tune_tickets.tickets.drawing import scores_to_bytes

    pipeline, store = pipeline_of(Imp(**FAST, sparsity=0.2)), Store(store_url)
    drawn = pipeline.draw(ignore)
    before = mask_of(store, pipeline.stages[-1])
    attempt = store.begin(Stage("imp", {"made": "by hand"}))
    attempt.put("scores.safetensors", scores_to_bytes({name: torch.zeros(k.shape) for name, k in before.kept.items()}))
    zeros = attempt.finish({}, seconds=0.0)
    inputs = {"kind": "ranking", "sparsity": 0.3, "ranking": "global"}
    pipeline.run(Stage("draw", inputs, {"search": zeros.key, "within": drawn}), ignore)
    after = mask_of(store, pipeline.stages[-1])
    assert after.weights_cut() == 4608
    assert not any(bool((after.kept[name] & ~kept).any()) for name, kept in before.kept.items())
