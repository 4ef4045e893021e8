"""`confirm` end to end on the tiny model, no use of report rows before it, and a search stopped by its budget."""

import json
import random

import pytest
from optuna.trial import TrialState

from tests.conftest import sentence
from tests.integration.conftest import TAG, left_behind
from tests.integration.test_search import runs_of, states_of, summary_of
from tune_tickets.config import load_experiment
from tune_tickets.data.splits import in_order
from tune_tickets.data.task import Example, load_task
from tune_tickets.results.records import Confirmation
from tune_tickets.search.confirming import choose

pytestmark = pytest.mark.integration


SHORT = (
    "search.trials=2", "search.concurrency=2", "search.warm_starts=[]", "evaluation.rows=4", "seed=3",
    "method={kind: random, drawing: {heads: {choice: [1/4, 3/8]}}}", "task.rows={train: 128, select: 48, report: 12}",
    "objective={floor_points: 100.0, near_constant: 1.0}",
)  # fmt: skip


def with_other_report_rows(task, seed: int) -> str:
    """The task's file with another text in the place of every report row, one that belies its label.

    Report rows are the first of each label in the order of the split: the new ones come before all other rows, which
    leaves these where they are.
    """
    report = {row.texts[0] for row in load_task(task, seed).report}
    with open(task.source, encoding="utf-8") as file:
        header, *lines = file.read().splitlines()
    rows = [line.rsplit(",", 1) for line in lines]
    first = in_order([Example((text,), 0) for text, _ in rows if text not in report], seed)[0]
    words, taken = random.Random(1), {text for text, _ in rows}

    def other(label: str) -> str:
        while True:
            text = sentence(0 if label == "pos" else 1, words)
            if text not in taken and in_order([Example((text,), 0), first], seed)[0] is not first:
                taken.add(text)
                return text

    return "\n".join([header, *(f"{other(label) if text in report else text},{label}" for text, label in rows)])


def test_tickets_are_confirmed_on_report_rows_that_had_no_say(cli, tiny_yaml, tmp_path, environment):
    out, other = tmp_path / "out", tmp_path / "other"
    code, printed = cli("run", tiny_yaml, "--output", out, *SHORT)
    assert code == 0, printed
    first = summary_of(out)

    settings = load_experiment(tiny_yaml, SHORT).settings
    file = tmp_path / "other.csv"
    file.write_text(with_other_report_rows(settings.task, settings.seed), encoding="utf-8")
    before = load_task(settings.task, settings.seed)
    after = load_task(settings.task.model_copy(update={"source": str(file)}), settings.seed)
    assert (before.train, before.select) == (after.train, after.select)
    assert len(before.report) == len(after.report) == 12
    assert not set(before.report) & set(after.report), "every report row is another one"

    code, printed = cli("run", tiny_yaml, "--output", other, *SHORT, f"task.source={file}", "--store", out / "store")
    assert code == 0, printed
    second = summary_of(other)
    assert all(use.computed == 0 for use in second.stages.values()), "no stage of a search depends on a report row"
    for name in ("params", "metrics", "values", "feasible"):
        assert [getattr(trial, name) for trial in first.trials] == [getattr(trial, name) for trial in second.trials]
    digests = [[stage.digest for trial in found.trials for stage in trial.stages] for found in (first, second)]
    assert digests[0] == digests[1]
    assert (first.selected, first.front) == (second.selected, second.front)
    assert [trial.id for trial in choose(first, 2)] == [trial.id for trial in choose(second, 2)]

    kept = (out / "summary.json").read_bytes()
    code, printed = cli("confirm", out, "--top", 1, "--seeds", 2)
    assert code == 0, printed
    assert (out / "summary.json").read_bytes() == kept
    found = Confirmation.model_validate(json.loads((out / "confirm.json").read_text()))
    assert found.tickets == (first.selected.trial,)
    random = f"random like {first.selected.trial}"
    assert [model.name for model in found.models] == [first.selected.trial, random, "dense"]
    assert (found.rows, found.attacked_rows, found.seeds) == (12, 4, (4, 5))
    assert found.report_fingerprint == before.report_fingerprint
    searched = {trial.outcome.retrain_digest for trial in first.trials}
    trained = [run.retrain_digest for model in found.models for run in model.runs]
    assert len({*trained} - searched) == 6, "every model was trained anew with every seed"
    assert {test.other for test in found.tests} == {"dense", random}
    assert "on 12 report rows (4 attacked)" in printed
    assert b"confirmed: report rows, 2 seeds" in (out / "pictures" / "front.svg").read_bytes()

    confirmed = [run for run in runs_of(out) if run.data.tags.get("tickets.role") == "confirm"]
    assert len(confirmed) == 6
    assert all("report/clean" in run.data.metrics for run in confirmed)
    assert {run.info.status for run in runs_of(out)} == {"FINISHED"}
    assert left_behind(environment[TAG]) == []


BUDGETS = {
    "gpu hours": "{gpu_hours: 1.0e-06}",
    "wall clock hours": "{wall_clock_hours: 1.0e-06}",
    "money": "{money: 1.0e-06, price_per_node_hour: 2.0}",
}


def test_a_search_stops_at_every_kind_of_budget_and_goes_on_with_more_budget_and_trials(
    cli, tiny_yaml, tmp_path, environment
):
    environment["RAY_OVERRIDE_RESOURCES"] = '{"GPU": 1}'  # Ray takes it at its word
    out = tmp_path / "out"
    command = ["run", tiny_yaml, "--output", out, *SHORT, "search.concurrency=1", "resources.gpus=0.5"]
    for kind, budget in BUDGETS.items():
        code, printed = cli(*command, f"search.budget={budget}")
        assert code == 0, printed
        assert f"Stopped: the budget of 1e-06 {kind} is spent" in printed
        assert f"tune-tickets resume {out} search.budget" in printed
        stopped = summary_of(out)
        assert (stopped.status, stopped.stopped_by.split(" (")[0]) == (
            "stopped",
            f"the budget of 1e-06 {kind} is spent",
        )
        assert not [trial for trial in stopped.trials if trial.status != "interrupted"]
        assert [run.info.status for run in runs_of(out) if run.info.run_name == "tiny"] == ["FINISHED"]
        command = ["resume", out]
    assert states_of(out) == [TrialState.RUNNING], "the one under way is taken up again"

    code, printed = cli("resume", out, "search.budget={}", "search.trials=3")
    assert code == 0, printed
    found = summary_of(out)
    assert (found.status, found.stopped_by) == ("finished", None)
    assert [(trial.id, trial.status) for trial in found.trials] == [(f"t{n:03d}", "complete") for n in range(3)]
    assert states_of(out) == [TrialState.COMPLETE] * 3
    assert {run.info.status for run in runs_of(out)} == {"FINISHED"}
    assert len(runs_of(out)) == 1 + 3 + 1
    assert found.spent["cpu_hours"] > stopped.spent["cpu_hours"] > 1e-6
    assert found.spent["gpu_hours"] == pytest.approx(found.spent["cpu_hours"] / 2), "half a GPU and a CPU per stage"
    assert found.spent["wall_clock_hours"] > stopped.spent["wall_clock_hours"] > stopped.spent["money"] / 2 > 0
    assert found.spent["money"] == stopped.spent["money"], "without a price nothing is paid"
