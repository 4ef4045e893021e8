"""MLflow's own pages over a real search: the run list, a run with its files, and several trials compared."""

import json
from urllib.parse import quote

import pytest

from tests.integration.browser.test_report import summary_of
from tests.integration.test_search import runs_of

pytestmark = pytest.mark.integration
# The page asks who is logged in; a server without accounts does not know that question.
ITS_OWN = ("/ajax-api/2.0/mlflow/users/current",)


def ours(complaints):
    """What the console complains of, apart from what MLflow's page does to itself."""
    return [said for said in complaints if not said.rstrip(")").endswith(ITS_OWN)]


@pytest.fixture(scope="module")
def runs(searched):
    """Every run by its name."""
    return {run.info.run_name: run for run in runs_of(searched)}


def run_page(address, run):
    return f"{address.split('/#')[0]}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def test_the_run_list_shows_every_trial_with_its_figures(page, address, searched, keep):
    page.goto(address)
    summary = summary_of(searched)
    for trial in summary.trials:
        page.get_by_role("link", name=f"trial {trial.number}", exact=True).wait_for()
    text = page.inner_text("body")
    for name in ("Run Name", "clean", "aua", "objective", *(control.name for control in summary.controls)):
        assert name in text, name
    best = summary.selected.trial
    clean = next(trial.metrics["clean"] for trial in summary.trials if trial.id == best)
    assert f"{clean:.4g}" in text
    keep("mlflow-runs.png", page)
    assert ours(page.complaints) == []


def test_a_run_has_its_settings_figures_and_files(page, address, runs, keep):
    page.goto(run_page(address, runs["trial 1"]))
    page.get_by_text("method.drawing.heads", exact=True).first.wait_for()
    text = page.inner_text("body")
    for expected in ("trial 1", "aua/textbugger/minilm", "Finished"):
        assert expected in text, expected
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("settings.yaml").first.click()
    page.get_by_text("max_length").first.wait_for()
    page.get_by_text("ticket.safetensors", exact=True).first.wait_for()
    keep("mlflow-run.png", page)
    assert ours(page.complaints) == []


def test_the_report_opens_among_the_files_of_the_search(page, address, runs, keep):
    page.goto(run_page(address, runs["pages"]) + "/artifacts")
    page.get_by_text("report.html").first.click()
    frame = page.frame_locator("iframe")
    frame.locator("#filter").wait_for()  # its script runs there too
    assert frame.locator("h1").inner_text() == "pages"
    keep("mlflow-report.png", page)
    assert [inner.evaluate("window.pwned") for inner in page.frames] == [None] * len(page.frames)
    assert ours(page.complaints) == []


def test_trials_are_compared_by_parallel_coordinates(page, address, runs, keep):
    chosen = [run for name, run in runs.items() if name.startswith("trial")]
    ids, experiment = [run.info.run_id for run in chosen], [chosen[0].info.experiment_id]
    where = f"/#/compare-runs?runs={quote(json.dumps(ids))}&experiments={quote(json.dumps(experiment))}"
    page.goto(address.split("/#")[0] + where)
    plot = page.locator("g.parcoords")
    plot.wait_for()
    assert plot.bounding_box()["width"] > 100
    assert page.locator("g.parcoords g.y-axis").count() > 1
    assert page.locator("canvas.gl-canvas-context").bounding_box()["width"] > 100
    text = page.inner_text("body")
    assert f"Comparing {len(chosen)} Runs" in text
    for run in chosen:
        assert run.info.run_name in text
    keep("mlflow-compare.png", page)
    assert ours(page.complaints) == []
