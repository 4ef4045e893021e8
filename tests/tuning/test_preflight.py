"""Looking at an experiment from where the hub cannot be reached."""

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError, Unreachable
from tune_tickets.trial.store import Store
from tune_tickets.tuning.preflight import look, preflight

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
    with pytest.raises(Unreachable, match="'nobody/nothing' is neither"):
        preflight(load_experiment(tiny_yaml, [override]), Store(str(tmp_path / "store")))
    assert not (tmp_path / "store").exists()


def test_what_needs_no_hub_is_refused_without_it(tiny_yaml):
    with pytest.raises(ConfigError, match="unknown attack 'rain'"):
        look(load_experiment(tiny_yaml, [HUB_MODEL, HUB_TASK, "evaluation.attacks=[rain]"]))
