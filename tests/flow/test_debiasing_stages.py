"""Bias model, teacher and debiased training as stages on a tiny real model."""

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from tests.conftest import FILLER, NEGATIVE, POSITIVE
from tests.flow.conftest import ignore
from tune_tickets.config import Experiment, load_experiment
from tune_tickets.config.training import Adversary, Debiasing, Regulariser, Retraining
from tune_tickets.engine.runner import LocalRunner
from tune_tickets.engine.stage import StageResult
from tune_tickets.engine.store import Store
from tune_tickets.errors import DataError, ResourceError
from tune_tickets.methods.base import Flow
from tune_tickets.methods.finetune import FineTune
from tune_tickets.methods.robustt import RobustT
from tune_tickets.search.preflight import preflight
from tune_tickets.tickets.ticket import Ticket

TEACHER = {"epochs": 2, "batch_size": 16, "learning_rate": 3e-3}
MARKER = {"features": "marker", "markers": ["good", "bad"]}


@pytest.fixture
def pairs(tmp_path: Path, tiny_yaml: Path) -> Experiment:
    """A pair task: the hypothesis of a 'yes' repeats words of the premise, that of a 'no' has none of them."""
    draw = random.Random(0)
    lines = ["premise,hypothesis,label"]
    for number in range(240):
        premise = draw.sample(FILLER, 6)
        yes = number % 2
        words = premise[1:4] if yes else draw.sample([word for word in FILLER if word not in premise], 3)
        lines.append(
            f"{' '.join(premise)},{' '.join(words)} {draw.choice(POSITIVE + NEGATIVE)},{'yes' if yes else 'no'}"
        )
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    overrides = [f"task.source={tmp_path / 'pairs.csv'}", "task.text=[premise, hypothesis]", "task.attacked=hypothesis"]
    return load_experiment(tiny_yaml, overrides)


@pytest.fixture
def pipeline_for(store_url):
    def pipeline(experiment: Experiment, world=None, method=None, **retraining: object) -> Flow:
        settings = {"epochs": 2, "batch_size": 16, "learning_rate": 3e-3} | retraining
        changes = {"retraining": Retraining.model_validate(settings), "method": method or FineTune()}
        fixed = experiment.settings.model_copy(update=changes)
        world = world or preflight(experiment, Store(store_url))
        return Flow(fixed, world, LocalRunner(store_url, fixed.resources))

    return pipeline


def trained(pipeline: Flow) -> StageResult:
    return pipeline.run(pipeline.retrain(pipeline.draw(ignore)), ignore)


def classifier(store_url: str, result: StageResult) -> torch.Tensor:
    return Ticket.from_bytes(Store(store_url).read(result, "ticket.safetensors"), "x").weights["classifier.weight"]


def predictions(pipeline: Flow, store_url: str, role: str, **debiasing: object) -> tuple[StageResult, torch.Tensor]:
    settings = Debiasing.model_validate({"loss": "confidence", "teacher": TEACHER, **debiasing})
    result = pipeline.run({"bias": pipeline._bias, "teacher": pipeline._teacher}[role](settings), ignore)
    return result, load(Store(store_url).read(result, "log_probabilities.safetensors"))["log_probabilities"]


def test_word_overlap_gives_the_labels_of_the_pairs_away(pairs, pipeline_for, store_url):
    result, log_probabilities = predictions(pipeline_for(pairs), store_url, "bias", bias={"further": True})
    assert log_probabilities.shape == (128, 2)
    assert torch.allclose(log_probabilities.exp().sum(dim=1), torch.ones(128))
    assert result.record["figures"]["select_accuracy"] == result.record["figures"]["train_accuracy"] == 100.0
    assert result.record["figures"]["bias_degree"] > 90
    assert (result.record["features"], result.record["words_with_vectors"]) == (7, 24)


def test_vectors_of_a_file_travel_through_the_store(pairs, pipeline_for, store_url, tmp_path):
    file = tmp_path / "small.vec"
    file.write_text("3 2\nfilm 1 0\nplot 0 1\nzebra 1 1\n", encoding="utf-8")
    bias = {"features": "claim", "vectors": str(file)}
    named = load_experiment(
        Path(pairs.source.file),
        [*pairs.source.overrides.values(), "retraining.debiasing.loss=poe"]
        + [f"retraining.debiasing.bias.{key}={value}" for key, value in bias.items()],
    )
    world = preflight(named, Store(store_url))
    file.unlink()
    result, _ = predictions(pipeline_for(named, world), store_url, "bias", bias=bias)
    assert (result.record["features"], result.record["words_with_vectors"]) == (2, 2)
    other, _ = predictions(pipeline_for(named, world), store_url, "bias", bias={"features": "claim"})
    assert other.record["features"] == 32
    with pytest.raises(ResourceError, match=r"small\.vec"):
        preflight(named, Store(store_url))


def test_folds_are_another_stage_and_know_less_of_a_row(pairs, pipeline_for, store_url):
    pipeline = pipeline_for(pairs)
    own, seen = predictions(pipeline, store_url, "bias", bias={"features": "claim"})
    folded, unseen = predictions(pipeline, store_url, "bias", bias={"features": "claim", "folds": 4})
    assert own.key.digest != folded.key.digest
    assert unseen.shape == seen.shape
    assert folded.record["figures"]["bias_degree"] < own.record["figures"]["bias_degree"]
    assert folded.record["figures"]["select_accuracy"] == own.record["figures"]["select_accuracy"]


def test_the_teacher_is_a_plain_fine_tuning_and_predicts_its_training_rows(experiment, pipeline_for, store_url):
    settings = {**TEACHER, "epochs": 8, "weight_decay": 0.01}
    pipeline = pipeline_for(experiment, **settings)
    result, log_probabilities = predictions(pipeline, store_url, "teacher", bias=MARKER, teacher=settings)
    assert log_probabilities.shape == (128, 2)
    assert torch.allclose(log_probabilities.exp().sum(dim=1), torch.ones(128))
    assert result.record["figures"]["train_accuracy"] > 80
    # The dense control under the same settings is the very same stage.
    assert trained(pipeline).computed is False


@pytest.mark.parametrize("loss", ["poe", "reweight", "confidence"])
def test_a_debiased_training_is_another_training_after_its_experts(loss, experiment, pipeline_for, store_url):
    plain = trained(pipeline_for(experiment))
    pipeline = pipeline_for(experiment, debiasing={"loss": loss, "bias": MARKER, "teacher": TEACHER})
    debiased = trained(pipeline)
    experts = {"confidence": ["bias", "retrain", "teacher"]}.get(loss, ["bias"])
    assert [stage.name for stage in pipeline.stages] == [*experts, "retrain"]
    assert pipeline.stages[0].figures.keys() == {"train_accuracy", "select_accuracy", "bias_degree"}
    assert not torch.equal(classifier(store_url, plain), classifier(store_url, debiased))


def test_normalised_weights_train_another_model(experiment, pipeline_for, store_url):
    reweight = {"loss": "reweight", "bias": MARKER}
    one, other = (
        trained(pipeline_for(experiment, debiasing={**reweight, "normalise": normalise})) for normalise in (False, True)
    )
    assert other.history[0]["loss"] > one.history[0]["loss"]


def test_debiasing_goes_along_with_an_adversary_a_regulariser_and_a_ticket(experiment, pipeline_for, store_url):
    robustt = RobustT.model_validate(
        {
            "sparsity": 0.5,
            "scores": "magnitude",
            "finetuning": {**TEACHER, "debiasing": {"loss": "poe", "bias": MARKER}},
        }
    )
    freelb, infobert = Adversary(kind="freelb", steps=2), Regulariser(critic_width=8)
    together = {"adversary": freelb, "regulariser": infobert}
    pipeline = pipeline_for(experiment, None, robustt, debiasing={"loss": "poe", "bias": MARKER}, **together)
    debiased = trained(pipeline)
    assert [stage.name for stage in pipeline.stages] == ["bias", "retrain", "masks", "draw", "bias", "retrain"]
    assert pipeline.stages[4].cached
    assert debiased.record["sparsity"]["weights"] == pytest.approx(50, abs=0.1)
    plain = trained(pipeline_for(experiment, None, robustt, **together))
    assert not torch.equal(classifier(store_url, plain), classifier(store_url, debiased))


def test_the_stages_of_plain_training_do_not_know_of_debiasing(experiment, pipeline_for):
    stage = pipeline_for(experiment).retrain(None)
    assert set(stage.upstream) == {"data"}
    assert "debiasing" not in stage.inputs["retraining"]


def test_words_that_the_encoder_does_not_know_are_said_to_be_unknown(tmp_path, tiny_yaml, pipeline_for, store_url):
    lines = ["premise,hypothesis,label"]
    lines += [f"жук {'и' * (number + 1)},жук,{'yes' if number % 2 else 'no'}" for number in range(240)]
    (tmp_path / "other.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    overrides = [f"task.source={tmp_path / 'other.csv'}", "task.text=[premise, hypothesis]", "task.attacked=hypothesis"]
    with pytest.raises(DataError, match=r"none of the words of the task.*debiasing\.bias\.vectors"):
        predictions(pipeline_for(load_experiment(tiny_yaml, overrides)), store_url, "bias")
