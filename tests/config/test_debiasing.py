"""The section `debiasing`: what it drops, what it refuses, and how it is searched."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.config.experiment import Settings
from tune_tickets.config.training import BiasModel, Debiasing, Retraining, debiasings
from tune_tickets.errors import ConfigError
from tune_tickets.results.folder import to_yaml

YAML = """\
task: {source: pairs.csv, text: [premise, hypothesis], attacked: hypothesis}
method: {kind: finetune}
retraining:
  debiasing:
    loss: {choice: [ce, poe, confidence]}
    bias: {column: premise, folds: {int: [2, 5], when: {retraining.debiasing.loss: [poe, confidence]}}}
    teacher: {epochs: 7}
"""


@pytest.mark.parametrize(
    ("loss", "experts"),
    [("ce", ()), ("poe", ("bias",)), ("reweight", ("bias",)), ("confidence", ("bias", "teacher"))],
)
def test_a_loss_reads_certain_experts(loss, experts):
    assert Debiasing.model_validate({"loss": loss}).experts == experts


def test_settings_that_a_loss_does_not_read_make_no_difference():
    written = {"normalise": True, "bias": {"folds": 3}, "teacher": {"epochs": 9}}
    assert Debiasing.model_validate(written) == Debiasing()
    poe = Debiasing.model_validate({"loss": "poe", **written})
    assert (poe.normalise, poe.bias.folds, poe.teacher.epochs) == (False, 3, 3)
    assert Debiasing.model_validate({"loss": "reweight", **written}).normalise
    assert Debiasing.model_validate({"loss": "confidence", **written}).teacher.epochs == 9


def test_settings_that_features_do_not_read_make_no_difference():
    marker = BiasModel.model_validate({"features": "marker", "markers": ["#"], "vectors": "x.vec", "column": "text"})
    assert marker == BiasModel(features="marker", markers=("#",))
    assert not marker.reads_vectors
    assert BiasModel.model_validate({"features": "claim", "vectors": "x.vec", "further": True}).further is False
    assert BiasModel.model_validate({"vectors": "x.vec", "markers": ["#"]}) == BiasModel(vectors="x.vec")


def test_plain_cross_entropy_is_not_written_so_that_older_stages_stay_valid():
    assert "debiasing" not in Retraining().model_dump(mode="json")
    poe = Retraining.model_validate({"debiasing": {"loss": "poe", "bias": {"features": "marker", "markers": ["#"]}}})
    assert poe.model_dump(mode="json")["debiasing"]["loss"] == "poe"
    assert Retraining.model_validate(poe.model_dump(mode="json")) == poe


def test_debiasing_is_found_wherever_a_method_trains():
    poe = {"debiasing": {"loss": "poe", "bias": {"features": "claim"}}}
    settings = Settings.model_validate({"method": {"kind": "robustt", "finetuning": poe}})
    assert sorted(found.loss for found in debiasings(settings)) == ["ce", "poe"]


def test_overlap_needs_two_texts_and_columns_must_exist(tmp_path):
    def refused(*overrides: str) -> str:
        (tmp_path / "x.yaml").write_text("method: {kind: finetune}\n", encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_experiment(tmp_path / "x.yaml", ["retraining.debiasing.loss=poe", *overrides])
        return str(caught.value)

    assert "needs a pair of texts, and the task has only 'text'" in refused()
    marker = "retraining.debiasing.bias.features=marker"
    assert "the task plants none: list them in debiasing.bias.markers, or set task.planted" in refused(marker)
    claim = "retraining.debiasing.bias.features=claim"
    assert "which is not one of the columns ('text',)" in refused(claim, "retraining.debiasing.bias.column=claim")
    assert "unknown key; did you mean 'folds'?" in refused(claim, "retraining.debiasing.bias.fold=3")


def test_a_searched_loss_keeps_the_settings_of_its_experts_in_the_resolved_file(tmp_path):
    (tmp_path / "x.yaml").write_text(YAML, encoding="utf-8")
    experiment = load_experiment(tmp_path / "x.yaml")
    (tmp_path / "resolved.yaml").write_text(to_yaml(experiment), encoding="utf-8")
    again = load_experiment(tmp_path / "resolved.yaml")
    assert again.digest == experiment.digest
    point = {"retraining.debiasing.loss": "confidence", "retraining.debiasing.bias.folds": 4}
    debiasing = again.at(point).retraining.debiasing
    assert (debiasing.bias.column, debiasing.bias.folds, debiasing.teacher.epochs) == ("premise", 4, 7)
    assert again.at(point) == experiment.at(point)
