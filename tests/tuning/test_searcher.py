"""The searcher against a real Optuna storage: honest states, nothing left RUNNING, nothing proposed twice."""

import math
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tune_tickets.config import load_experiment
from tune_tickets.tuning.searcher import INTERRUPTED, TicketSearch

YAML = """\
method:
  kind: earlyrobust
  gamma: {uniform: [0.0, 0.5]}
  drawing: {heads: {choice: [1/6, 1/4]}}
search: {sampler: random, warm_starts: [{method.gamma: 0.1}]}
"""
SINGLE, VECTOR = "objective.kind=weighted", "objective.kind=pareto"


@pytest.fixture
def make(tmp_path: Path):
    (tmp_path / "x.yaml").write_text(YAML, encoding="utf-8")

    def searcher(*overrides: str) -> TicketSearch:
        storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/optuna.db")
        return TicketSearch(load_experiment(tmp_path / "x.yaml", overrides), storage)

    return searcher


def result(kind: str, value: float) -> dict[str, float]:
    return {"objective": value} if kind == SINGLE else {"clean_value": value, "aua_value": 0.5}


@pytest.mark.parametrize("kind", [SINGLE, VECTOR])
def test_no_trial_is_left_running_whatever_happens_to_it(make, kind):
    search = make(kind)
    for name in ("good", "stopped", "failed", "nan", "silent", "cut off"):
        search.suggest(name)
        search.on_trial_result(name, {"epoch": 1, "probe_score": 40.0})
    search.on_trial_complete("good", result(kind, 0.7))
    search.on_trial_complete("stopped", {"epoch": 1, "probe_score": 40.0})
    search.on_trial_complete("failed", None, error=True)
    search.on_trial_complete("nan", result(kind, math.nan))
    search.on_trial_complete("silent", None)
    search.end_running()
    states = [trial.state for trial in search.study.trials]
    pruned, fail = TrialState.PRUNED, TrialState.FAIL
    assert states == [TrialState.COMPLETE, pruned, fail, pruned, pruned, fail]
    assert search.study.trials[0].values == list(result(kind, 0.7).values())


def test_a_second_word_about_a_finished_trial_changes_nothing(make):
    search = make()
    search.suggest("a")
    search.on_trial_complete("a", {"objective": 0.7})
    search.on_trial_complete("a", {"objective": 0.1})
    search.on_trial_complete("unknown", {"objective": 0.1})
    assert [trial.value for trial in search.study.trials] == [0.7]


def test_warm_starts_come_first_and_once(make):
    search = make()
    assert search.suggest("a")["method.gamma"] == 0.1
    search.on_trial_complete("a", {"objective": 0.7})
    again = make()
    assert again.suggest("b")["method.gamma"] != 0.1
    assert again.finished() == 1


def test_a_rebuilt_searcher_goes_on_with_other_draws_than_it_began_with(make):
    search = make("search.warm_starts=[]")
    first = [search.suggest(name) for name in "ab"]
    for name in "ab":
        search.on_trial_complete(name, {"objective": 0.5})
    later = [make("search.warm_starts=[]").suggest("c")]
    assert not [point for point in later if point in first]


def test_the_same_seed_proposes_the_same_points(make, tmp_path):
    points = [make("seed=5").suggest(name) for name in "ab"]
    (tmp_path / "optuna.db").unlink()
    assert [make("seed=5").suggest(name) for name in "ab"] == points


def test_what_a_killed_driver_left_running_is_proposed_again_once(make):
    search = make()
    cut_off = [search.suggest(name) for name in "ab"]
    resumed = make()  # a killed driver says nothing: its trials are RUNNING in the storage
    assert resumed.finished() == 0
    assert [resumed.suggest(name) for name in "cd"] == cut_off
    for name in "cd":
        resumed.on_trial_complete(name, {"objective": 0.5})
    assert resumed.finished() == 2
    assert sum(bool(trial.user_attrs.get(INTERRUPTED)) for trial in resumed.study.trials) == 2
    assert make().suggest("e") not in cut_off


def test_experiments_on_one_storage_never_share_a_study(make):
    one, other = make("seed=1"), make("seed=2")
    one.suggest("a")
    assert len(one.study.trials) > 0
    assert all(trial.state == TrialState.WAITING for trial in other.study.trials)
