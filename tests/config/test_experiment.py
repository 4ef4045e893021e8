"""Experiments in Python: from a file or a dictionary, with overrides as words or values."""

import pytest

from tune_tickets.config import Experiment, load_experiment
from tune_tickets.errors import ConfigError

SECTIONS = {
    "name": "small",
    "method": {"kind": "earlyrobust", "gamma": {"uniform": (0.05, 0.2)}},
    "search": {"trials": 3},
}


def test_a_dictionary_means_the_same_as_the_file(tmp_path):
    file = tmp_path / "small.yaml"
    method = "{kind: earlyrobust, gamma: {uniform: [0.05, 0.2]}}"
    file.write_text(f"name: small\nmethod: {method}\nsearch: {{trials: 3}}\n", encoding="utf-8")
    experiment = Experiment.from_dict(SECTIONS)
    assert experiment.digest == Experiment.load(file).digest == load_experiment(file).digest
    assert list(experiment.domains) == ["method.gamma"]


def test_overrides_are_words_or_values_and_leave_the_dictionary_alone():
    by_value = Experiment.from_dict(SECTIONS, {"search.trials": 4, "method.gamma": {"choice": [0.1, 0.2]}})
    by_word = Experiment.from_dict(SECTIONS, ["search.trials=4", "method.gamma={choice: [0.1, 0.2]}"])
    assert by_value.digest == by_word.digest
    assert by_value.settings.search.trials == 4
    assert SECTIONS["search"] == {"trials": 3}


def test_refusals_name_the_key_and_the_override():
    with pytest.raises(ConfigError, match=r"override 'search\.trials=0': search\.trials: "):
        Experiment.from_dict(SECTIONS, {"search.trials": 0})
    with pytest.raises(ConfigError, match=r"'method\.gamma\.low=1': method\.gamma is a value and has no keys"):
        Experiment.from_dict(SECTIONS, {"method.gamma.low": 1})
    with pytest.raises(ConfigError, match=r"dictionary: method\.gama: unknown key"):
        Experiment.from_dict({"method": {"kind": "earlyrobust", "gama": 0.1}})


def test_sections_written_in_part_keep_the_settings_of_the_method_they_stand_in():
    # RobustT Tables 5 and 7, SST-2: 3 steps of 0.03 from 0.05, 3 epochs of fine-tuning.
    written = {"kind": "robustt", "adversary": {"steps": {"choice": [2, 3]}}, "finetuning": {"batch_size": 16}}
    method = Experiment.from_dict({"method": written}).at({"method.adversary.steps": 2}).method
    assert (method.adversary.steps, method.adversary.step_size, method.adversary.initial_magnitude) == (2, 0.03, 0.05)
    assert (method.finetuning.epochs, method.finetuning.batch_size) == (3, 16)


@pytest.mark.parametrize(
    "method",
    [
        {"paradigm": {"choice": ["finetuned", "isolated"]}, "pruning": {"choice": ["mask_training", "imp"]}},
        {"sparsity": {"choice": [0.9, 0.5]}, "start_sparsity": {"choice": [0.2, 0.7]}},
    ],
)
def test_values_that_could_be_drawn_together_must_go_together(method):
    with pytest.raises(ConfigError, match=r"which can be drawn together: give one a `when` on the other"):
        Experiment.from_dict({"method": {"kind": "srnets", **method}})
    first, second = method
    allowed = method[first]["choice"][0]
    Experiment.from_dict(
        {"method": {"kind": "srnets", **method, second: method[second] | {"when": {f"method.{first}": allowed}}}}
    )


def test_gpu_hours_that_no_stage_can_spend_are_refused(tiny_yaml):
    with pytest.raises(ConfigError, match=r"gpu_hours has no effect while resources\.gpus is 0"):
        load_experiment(tiny_yaml, ["search.budget={gpu_hours: 1}"])
    load_experiment(tiny_yaml, ["search.budget={gpu_hours: 1}", "resources.gpus=0.5"])
