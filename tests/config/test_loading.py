"""Experiment files: what is read, what is refused, and with which message."""

from pathlib import Path

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.config.loading import fill
from tune_tickets.errors import ConfigError
from tune_tickets.results.folder import to_yaml

YAML = """\
name: small
method:
  kind: earlyrobust
  gamma: {uniform: [0.05, 0.2]}
  adversary:
    kind: {choice: [freelb, none]}
    steps: {int: [2, 4], when: {method.adversary.kind: freelb}}
  drawing:
    heads: {choice: [1/6, 1/4]}
search:
  trials: 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


def refused(file: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(file, overrides)
    return str(caught.value)


def test_domains_are_found_and_stand_behind_those_they_depend_on(file):
    domains = list(load_experiment(file).domains)
    assert set(domains) == {
        "method.gamma",
        "method.adversary.kind",
        "method.adversary.steps",
        "method.drawing.heads",
    }
    assert domains.index("method.adversary.steps") > domains.index("method.adversary.kind")


def test_a_point_of_the_space_becomes_settings(file):
    settings = load_experiment(file).at(
        {"method.gamma": 0.07, "method.adversary.kind": "freelb", "method.adversary.steps": 3}
    )
    assert (settings.method.gamma, settings.method.adversary.steps) == (0.07, 3)


def test_a_removed_key_is_ignored_at_its_old_default_and_refused_otherwise(file):
    file.write_text(YAML + "resources: {threads: null, cpus: 2}\n", encoding="utf-8")
    assert load_experiment(file).settings.resources.cpus == 2
    file.write_text(YAML + "resources:\n  threads: 4\n", encoding="utf-8")
    removed = "resources.threads: this key was removed: a stage uses one torch thread per CPU: set resources.cpus"
    assert refused(file) == f"{file}:13: {removed}"
    assert refused(file, "resources.threads=3") == f"override 'resources.threads=3': {removed}"


def test_fractions_may_be_written_as_the_papers_do(file):
    experiment = load_experiment(file)
    assert experiment.domains["method.drawing.heads"].choice == (1 / 6, 1 / 4)
    assert load_experiment(file, ["method.drawing.neurons=1/4"]).settings.method.drawing.neurons == 0.25


def test_overrides_replace_values_and_domains(file):
    experiment = load_experiment(file, ["search.trials=4", "method.gamma=0.3", "retraining.epochs={int: [1, 3]}"])
    assert experiment.settings.search.trials == 4
    assert experiment.settings.method.gamma == 0.3
    assert "method.gamma" not in experiment.domains
    assert "retraining.epochs" in experiment.domains


def test_settings_of_a_missing_adversary_are_dropped(file):
    with_steps = load_experiment(file, ["method.adversary={kind: none, steps: 9}"])
    without = load_experiment(file, ["method.adversary={kind: none}"])
    assert with_steps.settings.method.adversary == without.settings.method.adversary


def test_infobert_can_be_searched_for_and_settings_of_a_missing_one_are_dropped(file):
    searched = load_experiment(file, ["retraining.regulariser={kind: {choice: [infobert, none]}}"])
    assert searched.settings.retraining.regulariser.kind == "infobert"
    without = searched.at({"retraining.regulariser.kind": "none", "method.gamma": 0.1})
    fixed = load_experiment(file, ["retraining.regulariser={kind: none, alpha: 0.3}"]).settings
    assert without.retraining == fixed.retraining


def test_a_band_without_words_is_refused(file):
    assert "low must be less" in refused(file, "retraining.regulariser={low: 0.9, high: 0.9}")


CONDITIONAL = """\
method:
  kind: {choice: [earlyrobust, robustt, finetune]}
  drawing: {heads: {choice: [1/4], when: {method.kind: earlyrobust}}}
  epochs: {choice: [2.0], when: {method.kind: robustt}}
retraining:
  adversary: {kind: {choice: [none, freelb]}, steps: 2}
"""


def test_a_space_over_methods_reads_back_with_what_belongs_to_each(file, tmp_path):
    file.write_text(CONDITIONAL, encoding="utf-8")
    experiment = load_experiment(file)
    again = tmp_path / "resolved.yaml"
    again.write_text(to_yaml(experiment), encoding="utf-8")
    reread = load_experiment(again)
    assert reread.digest == experiment.digest
    for kind in ("earlyrobust", "robustt", "finetune"):
        forced = {"method.kind": kind, "retraining.adversary.kind": "freelb"}
        point = fill(experiment.document, experiment.domains, forced)
        assert reread.at(point) == experiment.at(point)
        assert experiment.at(point).retraining.adversary.steps == 2
    assert experiment.at({"method.kind": "robustt", "method.epochs": 2.0}).method.epochs == 2.0


def test_an_override_that_chooses_a_method_leaves_out_what_belongs_to_the_others(file):
    deeper = "  patience: {choice: [3, 4], when: {method.drawing.heads: 1/4}}\nretraining:"
    file.write_text(CONDITIONAL.replace("retraining:", deeper), encoding="utf-8")
    chosen = load_experiment(file, ["method.kind=robustt"])
    assert list(chosen.domains) == ["method.epochs", "retraining.adversary.kind"]
    assert chosen.settings.method.kind == "robustt"
    plain = load_experiment(file, ["method.kind=finetune", "retraining.adversary.kind=none"])
    assert plain.domains == {}
    file.write_text(CONDITIONAL.replace("{method.kind: robustt}", "{method.kind: typo}"), encoding="utf-8")
    with pytest.raises(ConfigError, match="can never be true"):
        load_experiment(file)


def test_settings_beside_a_searched_kind_are_part_of_the_digest(file):
    file.write_text(CONDITIONAL, encoding="utf-8")
    assert load_experiment(file).digest != load_experiment(file, ["retraining.adversary.steps=3"]).digest


def test_the_resolved_configuration_reads_back_to_the_same_experiment(file, tmp_path):
    experiment = load_experiment(file)
    again = tmp_path / "resolved.yaml"
    again.write_text(to_yaml(experiment), encoding="utf-8")
    assert load_experiment(again).digest == experiment.digest


def test_two_files_that_mean_the_same_have_the_same_digest(file, tmp_path):
    spelled_out = tmp_path / "spelled.yaml"
    spelled_out.write_text(YAML + "  concurrency: 2\nseed: 0\n", encoding="utf-8")
    assert load_experiment(spelled_out).digest == load_experiment(file).digest
    assert load_experiment(file, ["seed=1"]).digest != load_experiment(file).digest


@pytest.mark.parametrize(
    ("line", "key", "text"),
    [
        ("    stepps: 2", "method.adversary.stepps", "did you mean 'steps'?"),
        ("    step_size: fast", "method.adversary.step_size", "valid number"),
        ("    step_size: -1", "method.adversary.step_size", "greater than 0"),
        ("    norm: l3", "method.adversary.norm", "'l2' or 'linf'"),
        ("    max_norm: {choice: []}", "method.adversary.max_norm", "empty domain"),
        ("    max_norm: {uniform: [0.3, 0.1]}", "method.adversary.max_norm", "empty domain"),
        ("    max_norm: {log_uniform: [0, 0.1]}", "method.adversary.max_norm", "above 0"),
        ("    max_norm: {uniform: [0.1, 1e9]}", "method.adversary.max_norm", "less than or equal to 100"),
        ("    max_norm: {uniform: [0, 1], int: [1, 2]}", "method.adversary.max_norm", "one kind"),
    ],
)
def test_a_bad_value_is_refused_with_file_line_and_key(tmp_path, line, key, text):
    path = tmp_path / "bad.yaml"
    path.write_text(YAML.replace("  drawing:", f"{line}\n  drawing:"), encoding="utf-8")
    message = refused(path)
    assert message.startswith(f"{path}:8: {key}")
    assert text in message


def test_bad_overrides_are_refused_by_name(file):
    assert "search.trials: input should be a valid integer" in refused(file, "search.trials=many")
    assert "unknown key" in refused(file, "x.y=1")
    assert "expected key=value" in refused(file, "search.trials")
    assert "is a value and has no keys" in refused(file, "method.gamma.low=1")
    assert "not valid YAML" in refused(file, "method.gamma=[")
    assert "method.kind: must be one of" in refused(file, "method.kind=magic")


def test_booleans_are_not_numbers(file):
    assert "valid integer" in refused(file, "search.trials=true")


def test_domains_stand_only_where_trials_may_differ(file):
    assert "allowed in the sections method, retraining, ablation, transfer" in refused(
        file, "search.trials={int: [1, 2]}"
    )


def test_a_condition_that_cannot_hold_is_refused(file):
    steps = "method.adversary.steps={int: [2, 4], when: {method.adversary.kind: pgd}}"
    assert "can never be true" in refused(file, steps)
    assert "neither a search domain nor set" in refused(file, "method.gamma={uniform: [0, 1], when: {method.x: 1}}")


def test_conditions_in_a_circle_are_refused(file):
    message = refused(
        file,
        "method.gamma={uniform: [0, 1], when: {method.patience: 2}}",
        "method.patience={int: [1, 2], when: {method.gamma: 0}}",
    )
    assert "form a circle" in message


def test_missing_and_malformed_files_are_refused(tmp_path):
    assert "no such file" in refused(tmp_path / "absent.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("model:\n  layers: [1\n", encoding="utf-8")
    assert "not valid YAML" in refused(broken)
    twice = tmp_path / "twice.yaml"
    twice.write_text("seed: 1\nseed: 2\n", encoding="utf-8")
    assert f"{twice}:2" in refused(twice)
    scalar = tmp_path / "scalar.yaml"
    scalar.write_text("42\n", encoding="utf-8")
    assert "expected a mapping" in refused(scalar)


def test_contradicting_sections_are_refused(file):
    assert "controls.dense is false" in refused(file, "controls.dense=false")
    assert "more than task.rows.select" in refused(file, "evaluation.rows=1000")
    assert "needs the column that attacks may change" in refused(file, "task.text=[premise, hypothesis]")


def test_mappings_may_be_merged_and_errors_in_them_name_the_mapping(file):
    text = (
        file.read_text(encoding="utf-8")
        + """\
  warm_starts:
    - &first {method.gamma: 0.1, method.drawing.heads: 1/6}
    - {<<: *first, method.gamma: 0.15}
    - {<<: *first, method.gama: 0.15}
"""
    )
    file.write_text(text, encoding="utf-8")
    experiment = load_experiment(file)
    assert experiment.settings.search.warm_starts[1] == {"method.gamma": 0.15, "method.drawing.heads": "1/6"}
    place = experiment.source.where(("search", "warm_starts", 2, "method.drawing.heads"))
    assert place == f"{file}:{len(text.splitlines())}"
