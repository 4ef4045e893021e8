"""Schedulers as Ray Tune calls them."""

from dataclasses import dataclass

import pytest
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from tune_tickets.config import load_experiment
from tune_tickets.results.records import TrialRecord
from tune_tickets.search.scheduler import make_scheduler


class Live:
    """The part of Tune's controller that a scheduler asks: another trial waits to run."""

    def get_live_trials(self):
        return [type("Waiting", (), {"status": "PENDING"})]


@dataclass(frozen=True)
class Named:
    """What a scheduler knows of a trial."""

    trial_id: str


@pytest.fixture
def scheduler(tmp_path):
    def make(text: str) -> TrialScheduler:
        path = tmp_path / "x.yaml"
        path.write_text(f"search: {{scheduler: {text}}}\n", encoding="utf-8")
        return make_scheduler(load_experiment(path))

    return make


def epoch(number: int, score: float) -> dict[str, float]:
    return {"epoch": number, "probe_score": score}


def test_the_median_rule_ends_what_is_below_the_median_and_pauses_nothing(scheduler):
    rule = scheduler("{kind: median, grace_epochs: 2, least_trials: 3}")
    for trial, score in ((Named("a"), 30.0), (Named("b"), 50.0), (Named("c"), 70.0)):
        for number in (1, 2, 3):
            assert rule.on_trial_result(Live(), trial, epoch(number, score)) == TrialScheduler.CONTINUE
        rule.on_trial_complete(Live(), trial, {"objective": 0.5})  # the last word is of no epoch
    assert rule.on_trial_result(Live(), Named("d"), epoch(1, 40.0)) == TrialScheduler.CONTINUE, "within the grace"
    assert rule.on_trial_result(Live(), Named("d"), {"record": {}}) == TrialScheduler.CONTINUE, "no epoch"
    assert rule.on_trial_result(Live(), Named("d"), epoch(2, 45.0)) == TrialScheduler.STOP, "the median is 50"
    assert rule.on_trial_result(Live(), Named("e"), epoch(2, 55.0)) == TrialScheduler.CONTINUE


def test_no_scheduler_lets_every_trial_run(scheduler):
    assert type(scheduler("{kind: none}")) is FIFOScheduler


@pytest.mark.parametrize(
    "text", ["{kind: asha, grace_epochs: 1, reduction_factor: 2}", "{kind: median, grace_epochs: 1, least_trials: 2}"]
)
@pytest.mark.parametrize("score", [10.0, 29.0, 31.0, 49.0, 51.0, 90.0])
def test_a_scheduler_made_anew_decides_as_the_one_that_saw_the_trials_itself(scheduler, tmp_path, text, score):
    curves = {"a": [30.0, 40.0, 50.0], "b": [50.0, 50.0, 60.0], "c": [20.0], "d": [60.0, 30.0]}
    live = scheduler(text)
    for name, scores in curves.items():
        live.on_trial_add(Live(), Named(name))
        for number, reached in enumerate(scores, start=1):
            live.on_trial_result(Live(), Named(name), epoch(number, reached))
    records = [
        TrialRecord(id=name, number=0, status="complete", params={}, rungs=tuple(enumerate(scores, start=1)))
        for name, scores in curves.items()
    ]
    rebuilt = make_scheduler(load_experiment(tmp_path / "x.yaml"), records)
    decisions = []
    for each in (live, rebuilt):
        each.on_trial_add(Live(), Named("new"))
        decisions.append([])
        while len(decisions[-1]) < 3 and TrialScheduler.STOP not in decisions[-1]:
            decisions[-1].append(each.on_trial_result(Live(), Named("new"), epoch(len(decisions[-1]) + 1, score)))
    assert decisions[0] == decisions[1]
    assert (TrialScheduler.STOP in decisions[0]) == (score < 40.0), "the median of 20, 30, 50 and 60"
