"""The searcher with a real Optuna storage: correct states, nothing lost, nothing proposed twice."""

from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tune_tickets.config import load_experiment
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.run import open_storage
from tune_tickets.search.searcher import TicketSearch

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

    def searcher(*overrides: str, **more) -> TicketSearch:
        return TicketSearch(
            load_experiment(tmp_path / "x.yaml", overrides), open_storage(tmp_path / "optuna.db"), **more
        )

    return searcher


def end(search: TicketSearch, name: str, status: str, values: tuple[float, ...] | None = None, **more) -> None:
    """A trial ends: what the observer tells the searcher."""
    number = search.number(name)
    search.tell(name, TrialRecord(id=name, number=number, status=status, params={}, values=values, **more))


@pytest.mark.parametrize("values", [(0.7,), (0.7, 0.5)])
def test_optuna_knows_how_each_trial_ended_and_which_are_under_way(make, values):
    search = make(SINGLE if len(values) == 1 else VECTOR)
    for name in ("good", "beaten", "failed", "cut off"):
        search.suggest(name)
        search.on_trial_result(name, {"epoch": 1, "probe_score": 40.0})
        search.on_trial_complete(name, None)  # Tune says so before the record is written
    assert {trial.state for trial in search.study.trials} == {TrialState.RUNNING}
    end(search, "good", "complete", values)
    end(search, "beaten", "pruned", bound=(0.6,))
    end(search, "failed", "failed")
    states = [trial.state for trial in search.study.trials]
    assert states == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING]
    assert search.study.trials[0].values == list(values)
    assert search.study.trials[1].user_attrs["bound"] == [0.6]


def test_a_second_word_about_a_finished_trial_changes_nothing(make):
    search = make()
    search.suggest("a")
    end(search, "a", "complete", (0.7,))
    end(search, "a", "complete", (0.1,))
    assert [trial.value for trial in search.study.trials] == [0.7]


def test_warm_starts_come_first_and_once(make):
    search = make()
    assert search.suggest("a")["method.gamma"] == 0.1
    end(search, "a", "complete", (0.7,))
    again = make()
    assert again.suggest("b")["method.gamma"] != 0.1
    assert again.finished() == 1


def test_a_rebuilt_searcher_goes_on_with_other_draws_than_it_began_with(make):
    search = make("search.warm_starts=[]")
    first = [search.suggest(name) for name in "ab"]
    for name in "ab":
        end(search, name, "complete", (0.5,))
    later = [make("search.warm_starts=[]").suggest("c")]
    assert not [point for point in later if point in first]


def test_the_same_seed_proposes_the_same_points(make, tmp_path):
    points = [make("seed=5").suggest(name) for name in "ab"]
    (tmp_path / "optuna.db").unlink()
    assert [make("seed=5").suggest(name) for name in "ab"] == points


def test_what_a_killed_driver_left_running_is_taken_up_under_its_number(make):
    search = make()
    cut_off = [search.suggest(name) for name in "ab"]
    resumed = make()  # a killed driver says nothing: its trials are RUNNING in the storage
    assert (resumed.finished(), resumed.found.again) == (0, 2)
    assert [resumed.suggest(name) for name in "cd"] == cut_off
    assert [resumed.number(name) for name in "cd"] == [0, 1]
    for name in "cd":
        end(resumed, name, "complete", (0.5,))
    later = make()
    assert later.finished() == 2
    assert later.suggest("e") not in cut_off
    assert later.number("e") == 2
    assert len(later.study.trials) == 3


@pytest.mark.parametrize("sampler", ["random", "tpe", "multivariate-tpe", "nsga2"])
def test_a_trial_left_half_drawn_is_drawn_to_its_end_as_it_would_have_been(make, tmp_path, sampler, monkeypatch):
    overrides = (f"search.sampler={sampler}", "search.startup_trials=2", "search.warm_starts=[]")

    def several(search: TicketSearch, numbers: range) -> list[dict]:
        points = []
        for number in numbers:
            points.append(search.suggest(str(number)))
            end(search, str(number), "complete", (float(number % 3),))
        return points

    undisturbed = several(make(*overrides), range(6))
    (tmp_path / "optuna.db").unlink()
    search = make(*overrides)
    several(search, range(4))
    with monkeypatch.context() as patch:
        patch.setattr(optuna.Trial, "suggest_categorical", lambda *arguments: 1 / 0)  # killed after the first parameter
        with pytest.raises(ZeroDivisionError):
            search.suggest("4")
    assert list(search.study.trials[4].params) == ["method.gamma"]
    assert several(make(*overrides), range(4, 6)) == undisturbed[4:]


def test_warm_starts_are_complete_also_if_the_driver_was_killed_between_two_of_them(make, monkeypatch):
    starts = "search.warm_starts=[{method.gamma: 0.1}, {method.gamma: 0.2}, {method.gamma: 0.3}]"
    enqueue = optuna.Study.enqueue_trial

    def killed(study: optuna.Study, point: dict) -> None:
        enqueue(study, point)
        if point["method.gamma"] == 0.2:
            raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "enqueue_trial", killed)
        with pytest.raises(ZeroDivisionError):
            make(starts)
    search = make(starts)
    assert [search.suggest(name)["method.gamma"] for name in "abc"] == [0.1, 0.2, 0.3]
    assert len(search.study.trials) == len(make(starts).study.trials) == 3


def test_a_trial_whose_record_is_on_disk_is_told_from_it(make):
    search = make()
    search.suggest("a")
    resumed = make(records=[TrialRecord(id="t000", number=0, status="complete", params={}, values=(0.7,))])
    assert (resumed.finished(), resumed.found.again) == (1, 0)
    assert resumed.study.trials[0].value == 0.7


def test_a_finished_trial_without_a_record_runs_once_more_for_it(make):
    search = make()
    params = search.suggest("a")
    end(search, "a", "complete", (0.7,))
    resumed = make(records=[])
    assert (resumed.finished(), resumed.found.again) == (0, 1)
    assert resumed.suggest("b") == params
    assert resumed.number("b") == 0
    end(resumed, "b", "complete", (0.7,))
    assert resumed.finished() == 1
    assert [trial.value for trial in resumed.study.trials] == [0.7]


def test_errors_are_tried_again_on_request_in_their_own_place(make):
    search = make()
    points = [search.suggest(name) for name in "abc"]
    for name, status in zip("abc", ("failed", "complete", "failed"), strict=True):
        end(search, name, status, (0.5,) if status == "complete" else None)
    assert make().found.failed == 2
    assert make(retry_errors=True).found.retried == 2
    resumed = make(retry_errors=True)  # called twice: a driver may be killed before it starts them
    assert (resumed.finished(), resumed.found.retried) == (1, 2)
    assert [resumed.suggest(name) for name in "de"] == [points[0], points[2]]
    assert [(resumed.number(name), resumed.attempt(name)) for name in "de"] == [(0, 2), (2, 2)]
    end(resumed, "d", "complete", (0.6,), attempt=2)
    ended = TrialRecord(id="t001", number=1, status="complete", params={}, values=(0.5,))
    killed = make(records=[ended, TrialRecord(id="t002", number=2, attempt=1, status="failed", params={})])
    assert killed.suggest("f") == points[0], "its record is gone"
    assert killed.suggest("g") == points[2], "the record on disk is of the first try"
    new = make()
    new._again = []
    new.suggest("h")
    assert new.number("h") == 3, "numbers have no gaps"


def test_experiments_on_one_storage_never_share_a_study(make):
    one, other = make("seed=1"), make("seed=2")
    one.suggest("a")
    assert len(one.study.trials) > 0
    assert all(trial.state == TrialState.WAITING for trial in other.study.trials)
