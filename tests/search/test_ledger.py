"""The cost of a search, and when its budget is spent."""

import json

import pytest

from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.results.folder import Results, to_yaml
from tune_tickets.search.observer import Ledger, Stopper
from tune_tickets.search.plan import PlannedStage, estimate, estimate_lines


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def load(tmp_path):
    def experiment(budget: str, *overrides: str):
        path = tmp_path / "x.yaml"
        path.write_text(f"search: {{concurrency: 2, budget: {budget}}}\nresources: {{cpus: 3, gpus: 0.5}}\n")
        return load_experiment(path, overrides)

    return experiment


@pytest.fixture
def open_ledger(load, tmp_path):
    clock = Clock()

    def ledger(budget: str) -> tuple[Ledger, Clock]:
        return Ledger(load(budget).settings, tmp_path / "spent.json", nodes=lambda: 4, clock=clock), clock

    return ledger


def test_hours_are_seconds_times_what_a_stage_holds(open_ledger):
    ledger, _ = open_ledger("{gpu_hours: 2}")
    ledger.charge(7200.0)
    ledger.charge(1800.0)
    assert ledger.spent["gpu_hours"] == pytest.approx(2.5 * 0.5)
    assert ledger.spent["cpu_hours"] == pytest.approx(2.5 * 3)
    assert ledger.exhausted() is None
    ledger.charge(5400.0)
    assert ledger.exhausted() == "the budget of 2 gpu hours is spent (2)"


@pytest.mark.parametrize(
    ("budget", "hours"), [("{wall_clock_hours: 1.5}", 1.5), ("{money: 12, price_per_node_hour: 2}", 1.5)]
)
def test_time_and_money_run_over_all_sessions(open_ledger, budget, hours):
    ledger, clock = open_ledger(budget)
    clock.now = 3600.0
    assert ledger.exhausted() is None
    clock.now += 0.5 * 3600 * 0.9
    ledger.close()
    clock.now += 1e6  # no session was running
    again, clock = open_ledger(budget)
    assert again.exhausted() is None
    clock.now += 0.5 * 3600 * 0.1 + 1.0
    assert "is spent" in again.exhausted()
    assert again.spent["wall_clock_hours"] == pytest.approx(hours, abs=0.001)


def test_the_ledger_is_on_disk_at_every_look(open_ledger, tmp_path):
    ledger, clock = open_ledger("{}")
    ledger.charge(3600.0)
    clock.now = 7200.0
    assert ledger.exhausted() is None
    assert json.loads((tmp_path / "spent.json").read_text()) == {
        "gpu_hours": 0.5, "cpu_hours": 3.0, "wall_clock_hours": 2.0, "money": 0.0
    }  # fmt: skip


@pytest.mark.parametrize("content", ["", "[1]", '{"money": null}', "{"])
def test_a_ledger_that_cannot_be_read_is_named(open_ledger, tmp_path, content):
    (tmp_path / "spent.json").write_text(content)
    with pytest.raises(TicketsError, match=r"spent\.json is damaged"):
        open_ledger("{}")


def test_the_search_stops_when_its_stages_have_spent_the_budget(open_ledger):
    stopper = Stopper(open_ledger("{cpu_hours: 1}")[0])
    assert not stopper.stop_all()
    stopper.ledger.charge(1200.0)
    assert stopper.stop_all()
    assert (stopper.out_of_budget, stopper.reason) == (True, "the budget of 1 cpu hours is spent (1)")


def test_another_budget_or_another_cluster_is_the_same_experiment(load, tmp_path):
    small, large = load("{cpu_hours: 1}"), load("{cpu_hours: 1}", "search.budget.cpu_hours=2")
    assert small.digest == large.digest != load("{}", "search.sampler=random").digest
    assert small.digest == load("{cpu_hours: 1}", "search.trials=300").digest, "more trials are the same experiment"
    assert small.digest == load("{cpu_hours: 1}", "resources.address=10.0.0.7:6379", "resources.cpus=1").digest
    results = Results(tmp_path / "out", store_url="")
    results.folder.mkdir()
    results.config.write_text(to_yaml(small), encoding="utf-8")
    results.check(large, resume=True)
    with pytest.raises(ConfigError, match="only the same experiment"):
        results.check(load("{}", "search.sampler=random"), resume=True)


def test_a_limit_on_money_needs_a_price(load):
    with pytest.raises(ConfigError, match="needs price_per_node_hour"):
        load("{money: 5}")


def planned(seconds: float | None) -> list[PlannedStage]:
    return [PlannedStage("retrain", 10, 4, "", 1200.0), PlannedStage("attack", 8, None, "", seconds)]


def test_an_estimate_is_what_is_left_times_the_mean_of_earlier_stages(load, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    settings = load("{gpu_hours: 1, money: 100, price_per_node_hour: 3}").settings
    # 6 x 1200 s and 8 x 900 s are 4 hours: with half a GPU and 3 CPUs each, two at once.
    found = estimate(planned(900.0), settings)
    assert found == pytest.approx({"cpu_hours": 12.0, "gpu_hours": 2.0, "wall_clock_hours": 2.0, "money": 6.0})
    first, second = estimate_lines(planned(900.0), settings)
    assert first.startswith("Rough estimate")
    assert second == "The budget of 1 gpu hours may stop it after 50% of that."


def test_no_more_stages_run_at_once_than_there_are_cpus_for_and_each_may_have_a_node_of_a_cluster(load, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    here = estimate(planned(900.0), load("{price_per_node_hour: 3}").settings)
    assert (here["wall_clock_hours"], here["money"]) == pytest.approx((4.0, 12.0)), "3 CPUs each, one at a time"
    there = estimate(planned(900.0), load("{price_per_node_hour: 3}", "resources.address=auto").settings)
    assert (there["wall_clock_hours"], there["money"]) == pytest.approx((2.0, 12.0)), "two nodes for two hours"


def test_what_never_ran_has_no_estimate(load):
    [line] = estimate_lines(planned(None), load("{}").settings)
    assert line.startswith("Cost unknown: attack never ran on this store.")
