"""An objective can use only metrics that the experiment measures."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError
from tune_tickets.search.preflight import check_objective, measured


@pytest.fixture
def load(tmp_path):
    def experiment(objective: str, *overrides: str):
        path = tmp_path / "x.yaml"
        path.write_text(f"evaluation: {{attacks: [textbugger/minilm]}}\nobjective: {objective}\n", encoding="utf-8")
        return load_experiment(path, overrides)

    return experiment


def test_every_measured_metric_may_be_named(load):
    known = measured(load("{}").settings)
    assert "aua/textbugger/minilm" in known
    check_objective(load(f"{{kind: pareto, metrics: [{', '.join(known)}]}}"))
    check_objective(load("{kind: constrained, constraints: [{metric: clean, at_least: -1.0, relative_to: dense}]}"))


@pytest.mark.parametrize(
    ("objective", "place", "name"),
    [
        ("{weights: {ood: 1.0}}", "objective.weights", "ood"),
        ("{kind: pareto, metrics: [clean, aua/textfooler]}", "objective.metrics", "aua/textfooler"),
        ("{kind: constrained, maximise: so, constraints: [{metric: aua, at_least: 1}]}", "objective.maximise", "so"),
        ("{constraints: [{metric: latency, at_most: 1}]}", "objective.constraints.0.metric", "latency"),
    ],
)  # fmt: skip
def test_what_is_not_measured_is_refused_with_a_list_of_what_is(load, objective, place, name):
    message = f"{place}: '{name}' is not measured in this experiment. Known metrics: clean, aua, aua/textbugger/minilm,"
    with pytest.raises(ConfigError, match=message) as told:
        check_objective(load(objective))
    assert ("For latency use flops" in str(told.value)) == (name == "latency")


def test_a_bound_relative_to_the_dense_control_needs_the_control(load):
    with pytest.raises(ConfigError, match=r"objective.constraints has a bound relative to the dense control"):
        load(
            "{floor_points: null, constraints: [{metric: clean, at_least: -1, relative_to: dense}]}",
            "controls.dense=false",
        )


def test_an_early_exit_that_could_end_a_winner_is_refused(load):
    bounded = "{constraints: [{metric: aua, at_most: 90}]}"
    with pytest.raises(ConfigError, match=r"evaluation.early_exit.*is not exact with the constraint aua <= 90"):
        check_objective(load(bounded, "evaluation.early_exit=true"))
    check_objective(load(bounded))


def test_with_a_suite_aua_is_the_suite_and_single_threats_cannot_be_named(load):
    suite = ("evaluation.suite=true",)
    known = measured(load("{}", *suite).settings)
    assert "aua" in known
    assert not [name for name in known if name.startswith(("aua/", "aua_after/"))]
    bounded = "{kind: constrained, maximise: clean, constraints: [{metric: aua, at_least: 20, relative_to: dense}]}"
    check_objective(load(bounded, *suite))
    with pytest.raises(ConfigError, match="'aua/textbugger/minilm' is not measured"):
        check_objective(load("{weights: {aua/textbugger/minilm: 1.0}}", *suite))


def test_a_suite_that_is_off_keeps_the_digest_of_the_experiment(load):
    plain, off, on = load("{}"), load("{}", "evaluation.suite=false"), load("{}", "evaluation.suite=true")
    assert plain.digest == off.digest
    assert plain.digest != on.digest
