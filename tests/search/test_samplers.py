"""Every sampler on a real Optuna storage, over a space with conditions and warm starts, also after a resume."""

from collections import defaultdict
from pathlib import Path

import optuna
import pytest

from tests.search.test_searcher import end
from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError
from tune_tickets.results.objective import names as objective_names
from tune_tickets.search.samplers import sampler_note
from tune_tickets.search.searcher import TicketSearch
from tune_tickets.search.space import grid, trials_wanted

YAML = """\
method:
  kind: earlyrobust
  gamma: {uniform: [0.0, 0.4], step: 0.2}
  adversary:
    kind: {choice: [freelb, none]}
    steps: {int: [2, 6], step: 2, when: {method.adversary.kind: freelb}}
search:
  trials: 12
  startup_trials: 3
  population: 3
  warm_starts: [{method.gamma: 0.2, method.adversary.kind: freelb, method.adversary.steps: 4}, {method.adversary.kind: none}]
"""  # noqa: E501
SAMPLERS = ["tpe", "multivariate-tpe", "group-tpe", "nsga2", "gp", "random", "grid"]
STARTS = {"method.gamma": 0.2, "method.adversary.kind": "freelb", "method.adversary.steps": 4}


@pytest.fixture
def make(tmp_path: Path):
    (tmp_path / "x.yaml").write_text(YAML, encoding="utf-8")

    storages = defaultdict(optuna.storages.InMemoryStorage)

    def searcher(storage: str, *overrides: str) -> TicketSearch:
        return TicketSearch(load_experiment(tmp_path / "x.yaml", overrides), storages[storage])

    return searcher


@pytest.fixture
def load(make, tmp_path: Path):
    return lambda *overrides: load_experiment(tmp_path / "x.yaml", overrides)


def results(params: dict) -> dict[str, float]:
    """A toy objective with its best at gamma 0.4 and the most steps; some points are infeasible."""
    clean, aua = 1.0 - params["method.gamma"], params["method.gamma"] + params.get("method.adversary.steps", 0) / 10
    if params["method.gamma"] == 0.0:
        clean = aua = -0.05
    return {"objective": clean + aua, "clean_value": clean, "aua_value": aua}


def names(search: TicketSearch) -> tuple[str, ...]:
    return objective_names(search._experiment.settings.objective)


def run(search: TicketSearch, first: int, trials: int) -> list[dict]:
    points = []
    for number in range(first, first + trials):
        params = search.suggest(str(number))
        points.append(params)
        end(search, str(number), "complete", tuple(results(params)[name] for name in names(search)))
    return points


@pytest.mark.parametrize("kind", ["weighted", "pareto"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_resumed_search_draws_what_an_undisturbed_one_draws(make, load, sampler, kind):
    overrides = (f"search.sampler={sampler}", f"objective.kind={kind}")
    whole = make("whole", *overrides)
    experiment = load(*overrides)
    trials = 6 if sampler == "gp" else 9  # a fit takes a second
    points = run(whole, 0, trials)
    for point in points:
        assert ("method.adversary.steps" in point) == (point["method.adversary.kind"] == "freelb")
        assert all(experiment.domains[name].contains(value) for name, value in point.items())
    assert points[0] == STARTS
    assert points[1]["method.adversary.kind"] == "none"

    parts = run(make("parts", *overrides), 0, 5)
    parts += run(make("parts", *overrides), 5, trials - 5)  # nothing but the storage is left of the first
    assert parts == points


@pytest.mark.parametrize(("sampler", "trials"), [("tpe", 30), ("group-tpe", 30), ("gp", 16), ("nsga2", 30)])
def test_samplers_that_learn_leave_the_infeasible_region(make, sampler, trials):
    points = run(make("learn", f"search.sampler={sampler}", "seed=3"), 0, trials)
    late = [point["method.gamma"] for point in points[trials // 2 :]]
    assert late.count(0.0) < len(late) / 3, "a third of random draws would be infeasible"


def test_a_grid_expands_the_condition_tree(load):
    experiment = load("search.sampler=grid")
    points = grid(experiment)
    # Three values of gamma, each with three numbers of steps or without an adversary.
    assert len(points) == 3 * (3 + 1) == trials_wanted(experiment)
    assert points[0] == {"method.gamma": 0.0, "method.adversary.kind": "freelb", "method.adversary.steps": 2}
    assert points[-1] == {"method.gamma": 0.4, "method.adversary.kind": "none"}


def test_each_point_of_a_grid_is_tried_once_also_after_a_kill_and_a_failure(make):
    overrides = ("search.sampler=grid", "search.trials=50")
    search = make("grid", *overrides)
    tried = run(search, 0, 4)
    failed = search.suggest("failed")
    end(search, "failed", "failed")
    cut_off = search.suggest("cut off")  # a killed driver says nothing
    resumed = make("grid", *overrides)
    left = trials_wanted(resumed._experiment) - resumed.finished()
    assert left == 12 - 5
    later = run(resumed, 10, left)
    assert cut_off in later
    every = [*tried, failed, *later]
    assert len({tuple(sorted(point.items())) for point in every}) == len(every) == 12


def test_fewer_trials_than_points_try_the_first(load):
    assert trials_wanted(load("search.sampler=grid", "search.trials=5")) == 5


@pytest.mark.parametrize("domain", ["{uniform: [0.0, 0.4]}", "{log_uniform: [0.1, 0.4]}"])
def test_a_continuous_domain_has_no_grid(load, domain):
    experiment = load("search.sampler=grid", f"method.gamma={domain}")
    with pytest.raises(ConfigError, match=r"method.gamma.*a continuous domain has no grid: give it a step"):
        trials_wanted(experiment)


def test_a_grid_of_fractions_has_the_points_people_write(load):
    experiment = load("search.sampler=grid", "method.gamma={uniform: [0.1, 0.45], step: 0.1}", "search.warm_starts=[]")
    assert sorted({point["method.gamma"] for point in grid(experiment)}) == [0.1, 0.2, 0.3, 0.4]


def test_a_grid_too_large_to_walk_is_refused(load):
    wide = [f"method.{name}={{int: [1, 100]}}" for name in ("patience", "batch_size")]
    more = ["method.epochs={uniform: [0.5, 50.0], step: 0.5}", "search.sampler=grid"]
    with pytest.raises(ConfigError, match="more than 100000 points"):
        grid(load(*wide, *more))


@pytest.mark.parametrize(("sampler", "noted"), [("gp", True), ("nsga2", True), ("group-tpe", False), ("tpe", False)])
def test_samplers_say_which_parameters_they_sample_independently(load, sampler, noted):
    note = sampler_note(load(f"search.sampler={sampler}"))
    assert (note is not None) == noted
    if noted:
        assert "(method.adversary.steps) are sampled independently" in note
    unconditional = load(f"search.sampler={sampler}", "method.adversary={kind: none}", "search.warm_starts=[]")
    assert sampler_note(unconditional) is None
