"""A metric in one row, in a module outside the package, is objective and constraint of a real search."""

import optuna
import pytest

pytestmark = pytest.mark.integration
ASKED = (
    "method={kind: random, drawing: {heads: {choice: [1/4, 1/2]}, neurons: {uniform: [0.1, 0.5]}}}",
    "objective={kind: pareto, metrics: [clean, toy_gap], floor_points: null, "
    "constraints: [{metric: toy_gap, at_most: 99}]}",
)


def test_without_its_module_the_metric_is_refused(chain):
    code, printed = chain.cli("validate", chain.yaml, "search.warm_starts=[]", *ASKED)
    assert code == 2
    assert "'toy_gap' is not measured" in printed


def test_a_metric_outside_the_package_steers_a_search_that_is_killed_and_resumed(chain, environment):
    environment["TUNE_TICKETS_METRICS"] = "tests.extension.toy_metric"
    chain.looks(*ASKED)
    chain.killed(*ASKED)
    summary, printed = chain.resumed()

    for trial in summary.trials:
        gap = trial.outcome.clean.accuracy - trial.outcome.attacks[0].accuracy_under_attack
        assert trial.metrics["toy_gap"] == pytest.approx(gap)
        assert trial.values == pytest.approx((trial.outcome.clean.accuracy / 100, 1 - gap / 100))
        assert trial.feasible == (gap <= 99)
    storage = optuna.storages.RDBStorage(f"sqlite:///{chain.out}/optuna.db")
    [study] = optuna.get_all_study_summaries(storage)
    told = optuna.load_study(study_name=study.study_name, storage=storage).trials
    assert [tuple(trial.values) for trial in told] == [trial.values for trial in summary.trials]
    assert "ToyGap%" in printed
    assert "ToyGap%" in chain.page()
    for trial, run in zip(summary.trials, chain.tracked(), strict=True):
        assert run.data.metrics["toy_gap"] == pytest.approx(trial.metrics["toy_gap"])
