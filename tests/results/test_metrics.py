"""One table of metrics: a metric from outside the package is one row, and works everywhere."""

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from tests.reports.conftest import make_attack, make_outcome, make_summary, make_trial, make_twin
from tune_tickets.config import load_experiment
from tune_tickets.errors import ConfigError
from tune_tickets.reports.page.figures import figure_table
from tune_tickets.reports.side_by_side import Finished, comparison_markdown, side_by_side
from tune_tickets.reports.table import print_table, rows
from tune_tickets.results import metrics
from tune_tickets.results.metrics import Metric, find, headline, is_confirmed, register
from tune_tickets.results.objective import judge
from tune_tickets.search.preflight import check_objective

MODULE = """\
from tune_tickets.results.metrics import Metric, register

def gap(model):
    return None if model.aua is None else model.clean.accuracy - model.aua

register(Metric("robust_gap", gap, better="lower", objective=True, column="Gap%"))
"""


@pytest.fixture
def robust_gap(monkeypatch, tmp_path):
    """A metric in one row, in a module outside the package."""
    (tmp_path / "gap_of_a_test.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(metrics, "_TABLE", list(metrics._TABLE))
    monkeypatch.setattr(metrics, "_loaded", set())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TUNE_TICKETS_METRICS", "gap_of_a_test")
    yield tmp_path
    sys.modules.pop("gap_of_a_test", None)


@pytest.fixture
def load(tmp_path):
    def experiment(objective, *overrides):
        path = tmp_path / "x.yaml"
        path.write_text(f"evaluation: {{attacks: [textfooler/minilm]}}\nobjective: {objective}\n", encoding="utf-8")
        return load_experiment(path, overrides)

    return experiment


@pytest.fixture
def summary():
    return make_summary([make_trial(0, outcome=make_outcome(84.0, [make_attack(aua=30.0)]))])


def test_the_keys_of_the_summary_stay_in_their_order():
    outcome = make_outcome(attacks=[make_attack()], ood=[make_twin(groups={"overlap": 10.0})])
    attack = ["aua", "low/aua", "high/aua", "suc", "queries", "words_changed", "skipped"]
    assert list(outcome.metrics()) == [
        *("clean", "majority_share", "low/clean", "high/clean"),
        *(f"{name}/textfooler/minilm" for name in attack),
        *("aua", "ood/hans", "low/ood/hans", "high/ood/hans", "ood/hans/overlap", "ood"),
        *("sparsity", "sparsity/heads", "sparsity/neurons", "sparsity/weights", "parameters"),
    ]


def test_a_row_is_found_by_the_name_of_a_member():
    assert find("aua/textfooler/minilm").name == "aua/<threat>"
    assert find("transfer/qnli/aua").name == find("mean/aua").name == "aua"
    assert find("latency") is None
    known = dict.fromkeys(("clean", "aua", "aua/a/b", "ood/hans", "ood/hans/x", "flops", "low/clean"), 1.0)
    assert list(headline(known)) == ["clean", "aua/a/b", "ood/hans"]
    assert [name for name in known if is_confirmed(name)] == ["clean", "aua", "aua/a/b", "ood/hans", "ood/hans/x"]


def test_a_name_is_registered_once_and_an_objective_needs_percent_and_a_direction():
    with pytest.raises(ConfigError, match="'clean' is registered already"):
        register(Metric("clean", lambda model: 1.0))
    with pytest.raises(ConfigError, match="'seconds' cannot be an objective"):
        register(Metric("seconds", lambda model: 1.0, unit="s", better="lower", objective=True))


def test_without_its_row_the_metric_is_refused(load):
    with pytest.raises(ConfigError, match="'robust_gap' is not measured"):
        check_objective(load("{weights: {robust_gap: 1.0}}"))


def test_a_new_metric_is_an_objective_of_which_less_is_better(robust_gap, load):
    experiment = load("{kind: pareto, metrics: [clean, robust_gap]}")
    check_objective(experiment)
    verdict = judge(experiment.settings.objective, make_outcome(84.0, [make_attack(aua=30.0)]), None)
    assert verdict.values == (pytest.approx(0.84), pytest.approx(1 - 0.54))


def test_a_new_metric_is_a_constraint(robust_gap, load):
    experiment = load("{floor_points: null, constraints: [{metric: robust_gap, at_most: 50}]}")
    check_objective(experiment)
    verdict = judge(experiment.settings.objective, make_outcome(84.0, [make_attack(aua=30.0)]), None)
    assert verdict.objections == ("robust_gap <= 50 is missed by 4.0 points",)
    assert judge(experiment.settings.objective, make_outcome(84.0, [make_attack(aua=40.0)]), None).feasible


def test_an_early_exit_is_exact_only_along_the_direction_of_a_metric(robust_gap, load):
    check_objective(load("{constraints: [{metric: robust_gap, at_most: 50}]}", "evaluation.early_exit=true"))
    with pytest.raises(ConfigError, match="is not exact with the constraint robust_gap >= 5"):
        check_objective(load("{constraints: [{metric: robust_gap, at_least: 5}]}", "evaluation.early_exit=true"))


def test_a_new_metric_is_in_the_closing_table_the_report_and_compare(robust_gap, summary):
    console = Console(file=io.StringIO(), width=200, color_system=None)
    print_table(summary, console)
    assert "Gap%" in console.file.getvalue()
    assert "54.0" in console.file.getvalue()
    page = figure_table(rows(summary, 10))
    assert "54.0" in page.lines[0].cells[page.whole_headers.index("Gap%")]
    both = [Finished(label, robust_gap, summary, {}) for label in "AB"]
    lines = comparison_markdown(both, side_by_side(both)).splitlines()
    assert any("Gap%" in line for line in lines)
    assert sum("| 54.0 |" in line for line in lines) == 2


def test_a_new_metric_is_logged_to_mlflow(robust_gap, tmp_path, summary):
    mlflow = pytest.importorskip("mlflow")
    from tune_tickets.tracking.tracker import Tracker

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = Tracker(uri, tmp_path / "artifacts", "demo", {"name": "demo"}, "digest")
    tracker.finish(summary, {})
    assert tracker.problems == ()
    client = mlflow.MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("demo").experiment_id])
    logged = {run.info.run_name: run.data.metrics for run in runs}
    assert logged["trial 0"]["robust_gap"] == pytest.approx(54.0)


def test_other_processes_import_what_the_variable_names(robust_gap):
    code = "import sys; from tune_tickets.results.metrics import find; print(find('robust_gap').better)"
    paths = os.pathsep.join([str(robust_gap), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "lower"


@pytest.mark.parametrize(
    ("name", "shown", "whose"),
    [
        ("clean", "clean accuracy, %", ""),
        ("aua", "accuracy under attack, %", ""),
        ("aua/textfooler/cf8", "accuracy under textfooler/cf8, %", "textfooler/cf8"),
        ("ood/hans", "hans (OOD), %", "hans"),
        ("ood/hans/lexical", "ood/hans/lexical", "hans"),
        ("sparsity/heads", "attention heads cut, %", ""),
        ("transfer/qa/clean", "transfer/qa/clean", ""),
        ("no_such_metric", "no_such_metric", ""),
    ],
)
def test_pictures_call_a_metric_what_its_row_says(name, shown, whose):
    assert (metrics.label(name), metrics.member(name)) == (shown, whose)


def test_attacks_and_twins_are_found_among_the_names_of_metrics():
    names = ["clean", "aua", "ood/hans", "low/aua/a", "aua/a", "aua/b/1", "aua/a", "ood/hans/lexical", "ood"]
    assert metrics.attacks_in(names) == ["aua/a", "aua/b/1"]
    assert metrics.twins_in(names) == ["ood/hans"]
    assert metrics.attack_bounds({"a": 10.0, "b/1": 20.0}) == {"aua/a": 10.0, "aua/b/1": 20.0, "aua": 15.0}


def test_a_module_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("TUNE_TICKETS_METRICS", "no_such_module")
    with pytest.raises(ConfigError, match="TUNE_TICKETS_METRICS names 'no_such_module', which cannot be imported"):
        find("clean")
