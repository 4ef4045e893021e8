"""The stage `masked_lm` on the tiny backbone: stored, shared, resumed, and read by a later stage."""

import pytest
import torch

from tests.flow.conftest import ignore
from tests.stages import Stage
from tune_tickets.config import load_experiment
from tune_tickets.config.search import Resources
from tune_tickets.engine import execution
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.store import Store
from tune_tickets.errors import ConfigError, DataError
from tune_tickets.methods.base import Flow
from tune_tickets.methods.bodies.masked_lm import load_masked_lm
from tune_tickets.search.preflight import look, preflight, world_of

FITTED = (
    "evaluation.masked_lm={held_out: 60, max_length: 24, epochs: 6, batch_size: 16, learning_rate: 3.0e-3, "
    "head_learning_rate: 3.0e-3}"
)


FITS = "evaluation.attacks=[bert-attack/minilm]"


def pipeline_of(yaml, url, *overrides):
    experiment = load_experiment(yaml, [FITS, FITTED, *overrides])
    settings = experiment.settings
    return Flow(settings, preflight(experiment, Store(url)), LocalRunner(url, settings.resources))


def test_a_head_is_fitted_from_the_training_texts_and_its_accuracy_is_kept(tiny_yaml, store_url):
    pipeline = pipeline_of(tiny_yaml, store_url)
    result = pipeline.run(pipeline._attackers_masked_lm(), ignore)
    assert result.record["fitted"]
    assert result.record["texts"] == 68  # of 128 training rows, 60 are held out
    assert 0 < result.record["top1"] < result.record["top10"] <= 100
    # Ten of 24 words by frequency alone reach about half; which word fits is hardly to be learnt here.
    assert result.record["top10"] > 40
    assert result.record["tokens"] > 10
    assert [record["step"] for record in result.history] == list(range(1, 11))
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    again = pipeline.run(pipeline._attackers_masked_lm(), ignore)
    assert not again.computed
    assert pipeline.stages[-1].cached


def test_a_later_stage_loads_it_as_a_transformers_model(tiny_yaml, store_url):
    pipeline = pipeline_of(tiny_yaml, store_url)
    fitted = pipeline.run(pipeline._attackers_masked_lm(), ignore)
    store = Store(store_url)
    stage = Stage("attack", {}, {"masked_lm": fitted.key})
    context = StageContext(stage, Resources(), store, store.begin(stage), lambda *progress: None)
    model, tokenizer = load_masked_lm(context)
    assert not model.training
    encoded = tokenizer("the film was [MASK]", return_tensors="pt")
    with torch.inference_mode():
        logits = model(**encoded).logits
    assert logits.shape == (1, 6, len(tokenizer))


def test_the_identity_follows_texts_settings_backbone_and_seed_but_not_the_ticket(tiny_yaml, store_url, tmp_path):
    base = pipeline_of(tiny_yaml, store_url)._attackers_masked_lm().digest
    assert pipeline_of(tiny_yaml, store_url, "retraining.epochs=3")._attackers_masked_lm().digest == base
    (tmp_path / "texts.txt").write_text("\n".join(f"the film number {number}" for number in range(90)))
    others = [
        "evaluation.masked_lm.epochs=2",
        "seed=1",
        "evaluation.masked_lm.layers=1",
        f"evaluation.masked_lm.corpus={tmp_path / 'texts.txt'}",
        "evaluation.masked_lm.rows=50",
    ]
    digests = {pipeline_of(tiny_yaml, store_url, other)._attackers_masked_lm().digest for other in others}
    assert len(digests | {base}) == 6
    fewer = pipeline_of(tiny_yaml, store_url, "model.layers=1")._attackers_masked_lm()
    assert fewer.digest in digests  # one layer of the backbone, whoever says so
    (tmp_path / "texts.txt").write_text("\n".join(f"the plot number {number}" for number in range(90)))
    assert pipeline_of(tiny_yaml, store_url, others[3])._attackers_masked_lm().digest not in digests


def test_fitting_resumed_from_a_checkpoint_ends_with_the_same_bits(tiny_yaml, store_url, tmp_path):
    whole = pipeline_of(tiny_yaml, store_url)
    wanted = whole.run(whole._attackers_masked_lm(), ignore)
    url = str(tmp_path / "cut")
    pipeline = pipeline_of(tiny_yaml, url)
    resources = Resources()
    stage = pipeline._attackers_masked_lm()

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
    assert resumed.record == wanted.record
    file = "masked_lm/model.safetensors"
    assert Store(url).read(resumed, file) == Store(store_url).read(wanted, file)
    assert Store(url).load_checkpoint(stage) is None


def test_a_checkpoint_with_a_head_is_only_measured(tiny_yaml, store_url, tiny_backbone, tmp_path):
    from tune_tickets.config.task import Model
    from tune_tickets.models.masked_lm import load_masked_lm_backbone, masked_lm_files

    found = load_masked_lm_backbone(Model(source=str(tiny_backbone)), seed=0)
    folder = tmp_path / "mlm"
    folder.mkdir()
    files = masked_lm_files(found.model, found.tokenizer)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    pipeline = pipeline_of(tiny_yaml, store_url, f"model.source={folder}")
    result = pipeline.run(pipeline._attackers_masked_lm(), ignore)
    assert not result.record["fitted"]
    assert result.history == []
    assert Store(store_url).read(result, "masked_lm/model.safetensors") == files["model.safetensors"]


def test_planning_writes_no_texts_and_both_see_the_same_ones(tiny_yaml, store_url, tmp_path):
    experiment = load_experiment(tiny_yaml, [FITS, FITTED])
    kept = preflight(experiment, Store(store_url))
    assert world_of(experiment, look(experiment)) == kept
    assert Store(store_url).require(kept.corpus).record == {"texts": 128}


def test_without_such_an_attack_there_is_no_corpus(world):
    assert world.corpus is None


def test_the_fingerprint_of_the_attack_follows_the_model_that_proposes_its_words(tiny_yaml, store_url):
    base = pipeline_of(tiny_yaml, store_url).world.threats
    assert pipeline_of(tiny_yaml, store_url, "retraining.epochs=3").world.threats == base
    assert pipeline_of(tiny_yaml, store_url, "evaluation.masked_lm.epochs=2").world.threats != base


def test_too_few_texts_and_too_long_blocks_are_said_before_anything_runs(tiny_yaml, store_url):
    with pytest.raises(DataError, match="128 different texts, and 128 are held out"):
        pipeline_of(tiny_yaml, store_url, "evaluation.masked_lm.held_out=128")
    with pytest.raises(
        ConfigError, match=r"evaluation\.masked_lm\.max_length is 64, but the model has positions for 40"
    ):
        pipeline_of(tiny_yaml, store_url, "evaluation.masked_lm.max_length=64")


@pytest.mark.integration
def test_bert_attack_in_a_search_asks_the_fitted_model_and_shows_how_good_it_is(tiny_yaml, store_url):
    pipeline = pipeline_of(tiny_yaml, store_url)
    [figures] = pipeline.dense_control(ignore).attacks
    [fitted] = [stage for stage in pipeline.stages if stage.name == "masked_lm"]
    record = Store(store_url).find("masked_lm", fitted.digest).record
    assert (figures.masked_lm.top1, figures.masked_lm.top10) == (record["top1"], record["top10"])
    assert figures.masked_lm.top1 == record["top1"]
    assert figures.candidates > 0
    [threat] = pipeline.world.threats
    assert threat.resources["masked lm"] == fitted.digest
