"""Sampling: conditions first, every value inside its domain."""

from pathlib import Path

import optuna
import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError
from tune_tickets.search.space import reference, sample, warm_start_note, warm_starts

YAML = """\
method:
  kind: earlyrobust
  gamma: {uniform: [0.0, 0.2], step: 0.05}
  penalty_heads: {log_uniform: [1e-5, 1e-3]}
  adversary:
    kind: {choice: [freelb, none]}
    steps: {int: [2, 8], step: 2, when: {method.adversary.kind: freelb}}
  drawing: {heads: {choice: [1/6, 1/4]}}
retraining:
  learning_rate: {log_uniform: [1e-5, 1e-3]}
"""


@pytest.fixture
def make(tmp_path: Path):
    def experiment(*overrides: str):
        path = tmp_path / "space.yaml"
        path.write_text(YAML, encoding="utf-8")
        return load_experiment(path, overrides)

    return experiment


def test_every_draw_lies_in_its_domain_and_conditions_hold(make):
    experiment = make()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    seen = set()
    for _ in range(60):
        params = sample(experiment, study.ask())
        assert ("method.adversary.steps" in params) == (params["method.adversary.kind"] == "freelb")
        assert all(experiment.domains[name].contains(value) for name, value in params.items())
        assert 1e-5 <= params["method.penalty_heads"] <= 1e-3
        assert params.get("method.adversary.steps", 2) in (2, 4, 6, 8)
        assert round(params["method.gamma"] / 0.05, 6) in (0, 1, 2, 3, 4)
        seen.add(params["method.adversary.kind"])
        experiment.at(params)
    assert seen == {"freelb", "none"}


def test_warm_starts_are_normalised_and_reach_the_study(make):
    experiment = make("search.warm_starts=[{method.drawing.heads: 1/6, method.gamma: 0.1}]")
    points = warm_starts(experiment)
    assert points == [{"method.drawing.heads": 1 / 6, "method.gamma": 0.1}]
    study = optuna.create_study()
    study.enqueue_trial(points[0])
    params = sample(experiment, study.ask())
    assert params["method.drawing.heads"] == 1 / 6
    assert params["method.gamma"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("{method.gamma: 0.9}", "outside the search domain"),
        ("{method.gamma: 0.07}", "outside the search domain"),
        ("{method.gamma: fast}", "outside the search domain"),
        ("{method.patience: 3}", "is not a search domain"),
        ("{method.adversary.kind: none, method.adversary.steps: 4}", "would be ignored"),
        ("{method.drawing.heads: 1/5}", "outside the search domain"),
    ],
)
def test_warm_starts_that_would_be_bent_or_dropped_are_refused(make, point, text):
    with pytest.raises(ConfigError, match=text):
        warm_starts(make(f"search.warm_starts=[{point}]"))


def test_a_warm_start_in_the_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(YAML + "search:\n  warm_starts:\n    - {method.gamma: 0.9}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"space.yaml:13: search.warm_starts.0.method.gamma: 0.9 lies outside"):
        warm_starts(load_experiment(path))


def test_controls_train_with_the_first_warm_start(make):
    experiment = make("search.warm_starts=[{retraining.learning_rate: 2e-4}]")
    assert reference(experiment).retraining.learning_rate == 2e-4
    assert reference(make()).retraining.learning_rate == 1e-5


def test_an_override_that_fixes_a_domain_takes_it_out_of_warm_starts(tmp_path):
    path = tmp_path / "space.yaml"
    point = "search:\n  warm_starts:\n    - {method.gamma: 0.1, method.drawing.heads: 1/6}\n"
    path.write_text(YAML + point, encoding="utf-8")
    assert warm_starts(load_experiment(path, ["method.gamma=0.3"])) == [{"method.drawing.heads": 1 / 6}]


def test_an_override_of_a_whole_section_takes_what_stood_in_it_out_of_warm_starts(tmp_path):
    path = tmp_path / "space.yaml"
    start = "search: {warm_starts: [{method.adversary.steps: 4, method.gamma: 0.1}]}\n"
    path.write_text(YAML.replace("{choice: [freelb, none]}", "freelb") + start, encoding="utf-8")
    assert warm_starts(load_experiment(path, ["method.adversary={kind: pgd}"])) == [{"method.gamma": 0.1}]
    assert warm_starts(load_experiment(path)) == [{"method.adversary.steps": 4, "method.gamma": 0.1}]


def test_warm_starts_beyond_the_number_of_trials_are_said_to_wait(make):
    points = "search.warm_starts=[{method.gamma: 0.1}, {method.gamma: 0.2}]"
    assert warm_start_note(make(points, "search.trials=2")) is None
    note = warm_start_note(make(points, "search.trials=1"))
    assert note is not None
    assert "Only 1 of 2 warm starts are tried, because search.trials=1." in note
