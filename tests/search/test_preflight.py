"""Checks of an experiment when the hub cannot be reached."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.engine.store import Store
from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.search.preflight import look, preflight, world_of

HUB_MODEL, HUB_TASK = "model.source=nobody/nothing", "task.source=nobody/nothing"


@pytest.mark.parametrize("overrides", [[HUB_MODEL], [HUB_TASK], [HUB_MODEL, HUB_TASK], []])
def test_a_look_says_what_it_could_not_see_and_sees_the_rest(tiny_yaml, overrides):
    seen = look(load_experiment(tiny_yaml, overrides))
    assert (seen.anatomy is None) == (HUB_MODEL in overrides)
    assert (seen.data is None) == (HUB_TASK in overrides)
    assert len(seen.unseen) == len(overrides)
    assert all("'nobody/nothing' is neither" in reason for reason in seen.unseen)


@pytest.mark.parametrize("override", [HUB_MODEL, HUB_TASK])
def test_a_run_needs_to_see_everything_and_stores_nothing_before(tiny_yaml, tmp_path, override):
    with pytest.raises(ResourceError, match="'nobody/nothing' is neither"):
        preflight(load_experiment(tiny_yaml, [override]), Store(str(tmp_path / "store")))
    assert not (tmp_path / "store").exists()


def test_an_attack_whose_resources_are_not_here_is_one_thing_not_seen(tiny_yaml, tmp_path):
    experiment = load_experiment(tiny_yaml, ["evaluation.attacks=[textbugger/minilm, textfooler, textbugger]"])
    seen = look(experiment)
    assert [threat.name for threat in seen.threats] == ["textbugger/minilm"]
    assert len(seen.unseen) == 1, "the same vectors are missing for both"
    assert "counter-fitted vectors" in seen.unseen[0]
    assert world_of(experiment, seen) is None
    with pytest.raises(ResourceError, match="counter-fitted vectors"):
        preflight(experiment, Store(str(tmp_path / "store")))


def test_what_needs_no_hub_is_refused_without_it(tiny_yaml):
    with pytest.raises(ConfigError, match="unknown attack 'rain'"):
        look(load_experiment(tiny_yaml, [HUB_MODEL, HUB_TASK, "evaluation.attacks=[rain]"]))


def test_a_mask_over_the_classifier_is_refused_on_a_task_with_other_labels(tiny_yaml, tmp_path):
    rows = [f'"text {number} here",{"abc"[number % 3]}' for number in range(90)]
    file = tmp_path / "three.csv"
    file.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    task = f"{{source: {file}, max_length: 24, rows: {{select: 30, report: 30}}}}"
    other = f"{{task: {task}, attacked_rows: 4}}"
    shared = ["search.warm_starts=[]", f"transfer={{three: {other}}}"]
    with pytest.raises(ConfigError, match=r"transfer\.three: the task has 3 labels and the main one 2"):
        look(load_experiment(tiny_yaml, ["method={kind: srnets, paradigm: isolated}", *shared]))
    assert len(look(load_experiment(tiny_yaml, ["method={kind: robustt}", *shared])).transfers["three"].labels) == 3
