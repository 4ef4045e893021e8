"""Twins and planted markers in a YAML file."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError


def settings_of(tmp_path, task):
    path = tmp_path / "ood.yaml"
    path.write_text(f"task:\n  text: [a, b]\n  attacked: b\n  {task}\n", encoding="utf-8")
    return load_experiment(path).settings


def test_a_preset_fills_in_what_is_not_written(tmp_path):
    task = settings_of(
        tmp_path, "ood: [{preset: hans, rows: {select: 30}}, {preset: paws-wiki, metric: accuracy}]"
    ).task
    hans, paws = task.ood
    assert (hans.name, hans.source, hans.split, hans.group) == ("hans", "jhu-cogsci/hans", "validation", "heuristic")
    assert hans.merge == {"neutral": "non-entailment", "contradiction": "non-entailment"}
    assert (hans.rows.select, hans.rows.report, hans.train) == (30, 400, None)
    assert (paws.source, paws.subset, paws.metric) == ("google-research-datasets/paws", "labeled_final", "accuracy")


def test_training_rows_of_a_preset_know_their_labels_and_copies(tmp_path):
    both = "[{preset: hans, train: {rows: 9}}, {preset: fever-symmetric-v2, source: x.csv, train: {copies: 2}}]"
    hans, symmetric = settings_of(tmp_path, f"ood: {both}").task.ood
    assert hans.train is not None
    assert symmetric.train is not None
    assert (hans.train.labels, hans.train.rows) == ({"non-entailment": "contradiction"}, 9)
    assert symmetric.train.copies == 2


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("ood: [{preset: paws-qqp}]", "paws-qqp is not on a hub: name its file in source"),
        ("ood: [{preset: mnli}]", "ood.0.preset"),
        ("ood: [{name: x, source: y, sourec: z}]", "unknown key"),
        ("ood: [{name: a/b, source: y}]", "ood.0.name"),
        ("ood: [{name: x, source: y}, {name: x, source: z}]", "two OOD twins are called x"),
    ],
)
def test_mistakes_are_named(tmp_path, task, message):
    with pytest.raises(ConfigError, match=message):
        settings_of(tmp_path, task)


def test_the_twin_of_a_planted_bias_keeps_its_name(tmp_path):
    with pytest.raises(ConfigError, match="two OOD twins are called reversed"):
        settings_of(tmp_path, "planted: {}\n  ood: [{name: reversed, source: y}]")


def test_a_written_experiment_reads_back_the_same(tmp_path):
    from tune_tickets.config.experiment import Settings

    settings = settings_of(tmp_path, "ood: [{preset: hans, train: {}}]\n  planted: {strength: 0.95}")
    assert Settings.model_validate_json(settings.model_dump_json()) == settings
