"""A search end to end on the tiny model: results, reuse, failures, Ctrl-C."""

import json
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import optuna
import pyarrow.parquet
import pytest
from optuna.trial import TrialState

from tests.integration.conftest import TAG, left_behind
from tune_tickets import load_ticket
from tune_tickets.results.records import Summary

pytestmark = pytest.mark.integration


def summary_of(folder: Path) -> Summary:
    return Summary.model_validate(json.loads((folder / "summary.json").read_text()))


def states_of(folder: Path) -> list[TrialState]:
    storage = optuna.storages.RDBStorage(f"sqlite:///{folder}/optuna.db")
    (study,) = optuna.get_all_study_summaries(storage)
    return [trial.state for trial in optuna.load_study(study_name=study.study_name, storage=storage).trials]


def runs_of(folder: Path) -> list:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return client.search_runs(experiments)


CONTROLS = ("controls.random=true", "controls.random_of=all", "controls.epochs=true")


def artifacts_of(folder: Path, run) -> list[str]:
    from mlflow import MlflowClient

    return [file.path for file in MlflowClient(f"sqlite:///{folder}/mlflow.db").list_artifacts(run.info.run_id)]


def damage_masks(store: Path) -> None:
    for blob in (store / "draw").rglob("mask.safetensors"):
        blob.write_bytes(b"damaged")


def damaged_masks(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("mask.safetensors") if path.read_bytes() == b"damaged"]


def registered(folder: Path, name: str):
    from mlflow import MlflowClient

    store = f"sqlite:///{folder}/mlflow.db"
    return MlflowClient(store, store).get_model_version_by_alias(name, "best")


def test_a_search_leaves_everything_the_readme_promises(cli, tiny_yaml, tmp_path, environment):
    out = tmp_path / "out"
    code, printed = cli("run", tiny_yaml, "--output", out, *CONTROLS)
    assert code == 0, printed
    summary = summary_of(out)
    assert summary.status == "finished"
    assert [trial.status for trial in summary.trials] == ["complete"] * 3
    check_controls(summary)
    assert summary.stages["search"].asked == 3
    assert len({trial.stages[0].digest for trial in summary.trials}) == 1, "one trajectory serves all ratios and gammas"
    assert summary.stages["search"].computed < 3
    assert states_of(out) == [TrialState.COMPLETE] * 3
    check_files(out, printed, summary)
    check_runs(out, summary)
    assert left_behind(environment[TAG]) == []

    code, printed = cli("plan", tiny_yaml, *CONTROLS, f"store={out / 'store'}")
    assert code == 0, printed
    assert "search" in printed
    # On the same store, to save further searches: what is reused, what is repaired, and what cannot be repaired.
    check_repeated(cli, tiny_yaml, out, tmp_path / "again")
    check_mended(cli, tiny_yaml, out / "store", tmp_path / "mended")
    check_tried_again(cli, tiny_yaml, out / "store", tmp_path / "broken")


def check_controls(summary):
    """A random ticket like every one that was measured, and the epochs of winner and dense control."""
    dense, own, *others = summary.controls
    assert (dense.name, own.name) == ("dense", "random-0")
    ids = {trial.id for trial in summary.trials}
    assert {summary.selected.trial, *(control.like for control in others)} == ids
    outcomes = {trial.id: trial.outcome for trial in summary.trials} | {None: winner_of(summary).outcome}
    for control in (own, *others):
        assert control.outcome.sparsity == outcomes[control.like].sparsity
        assert control.outcome.mask != outcomes[control.like].mask
    assert "random-0" in {comparison.other for comparison in summary.selected.comparisons}
    assert not {control.name for control in others} & {comparison.other for comparison in summary.selected.comparisons}
    winner, whole = summary.epochs
    assert (winner.model, whole.model) == (summary.selected.trial, "dense")
    for record, final in ((winner, winner_of(summary).outcome), (whole, dense.outcome)):
        assert [figures.epoch for figures in record.epochs] == list(range(1, 9))
        assert (record.epochs[-1].clean, record.epochs[-1].attacks) == (final.clean, final.attacks)
    assert summary.stages["epochs"].computed == 2


def check_files(out, printed, summary):
    winner = winner_of(summary)
    assert ("Ticket of the first rank: " if summary.selected.beaten else "Best ticket: ") in printed
    assert summary.verdict.sentence in printed
    assert " points above dense" in printed or " points below dense" in printed or "level with dense" in printed
    ticket = load_ticket(out / summary.selected.ticket)
    assert {label for label, _ in ticket.predict(["a good film", "a bad film"])} == {"neg", "pos"}
    assert ticket.metadata.params == winner.params
    for trial in summary.trials:
        table = pyarrow.parquet.read_table(out / "attacked" / f"{trial.id}-textbugger-minilm.parquet")
        assert table.num_rows == 8
    [threat] = summary.threat_models
    assert threat.substitutions_of == summary.selected.trial
    assert threat.substitutions
    shown = (out / "substitutions.txt").read_text(encoding="utf-8")
    assert f"[[{threat.substitutions[0].old} -> {threat.substitutions[0].new}]]" in shown
    assert f"a sample to judge: {out / 'substitutions.txt'}" in printed
    drawn = {path.stem for path in (out / "pictures").glob("*.svg")}
    wanted = {"front", "patterns", "mask-distances", "sparsity-neurons", "epochs", "losses", "parallel", "examples"}
    assert wanted | {"epochs-attacked"} <= drawn
    assert {path.stem for path in (out / "pictures").glob("*.png")} == drawn
    assert f"Pictures: {out / 'pictures'}" in printed
    assert "Mask distance between mini-epochs" in (out / "report.html").read_text(encoding="utf-8")
    assert f"Report: {out / 'report.html'}" in printed


def check_runs(out, summary):
    runs = runs_of(out)
    [parent] = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(runs) == 1 + 3 + len(summary.controls)
    assert all(run.info.status == "FINISHED" for run in runs)
    assert {one.tags[0].value for run in runs for one in run.inputs.dataset_inputs} == {"train", "select"}
    [best] = [run for run in runs if run.info.run_name == f"trial {winner_of(summary).number}"]
    assert best.data.tags["selected"] == ("false" if summary.selected.beaten else "true")
    assert parent.data.tags["mlflow.note.content"].startswith(summary.verdict.sentence)
    assert best.data.metrics["epoch/clean"] == best.data.metrics["clean"], "the last epoch is the ticket itself"
    if not summary.selected.beaten:
        assert registered(out, "tiny").run_id == best.info.run_id
    assert {"substitutions.txt", "pictures", "report.html"} <= set(artifacts_of(out, parent))


def check_repeated(cli, tiny_yaml, out, again):
    """All of it comes from the store, though the winner's weights are damaged there."""
    summary = summary_of(out)
    winner, ticket = winner_of(summary), load_ticket(out / summary.selected.ticket)
    [blob] = (out / "store" / "retrain" / winner.outcome.retrain_digest).rglob("ticket.safetensors")
    blob.write_bytes(blob.read_bytes()[:-1])
    code, printed = cli("run", tiny_yaml, "--output", again, *CONTROLS, "--store", out / "store")
    assert code == 0, printed
    repeated = summary_of(again)
    assert all(use.computed == 0 for use in repeated.stages.values())
    assert [trial.metrics for trial in repeated.trials] == [trial.metrics for trial in summary.trials]
    assert load_ticket(again / "best_ticket.safetensors").metadata.params == winner.params
    [reason] = (out / "store" / "quarantine").rglob("reason.json")
    assert "ticket.safetensors is changed" in reason.read_text()
    assert load_ticket(again / "best_ticket.safetensors").predict(["a good film"]) == ticket.predict(["a good film"])


def check_mended(cli, tiny_yaml, store, mended):
    """Masks that are damaged are drawn again for whoever reads them."""
    damage_masks(store)
    code, printed = cli("run", tiny_yaml, "--output", mended, "--store", store, "retraining.epochs=2")
    assert code == 0, printed
    assert [trial.status for trial in summary_of(mended).trials] == ["complete"] * 3
    assert summary_of(mended).stages["draw"].computed == len(damaged_masks(store / "quarantine")) > 0
    assert not list((store / "in-use").iterdir())


def check_tried_again(cli, tiny_yaml, store, broken):
    """Damage that cannot be repaired fails trials. When the cause is removed, they are retried under their numbers."""
    damage_masks(store)
    for recipe in (store / "draw").rglob("stage.json"):
        recipe.unlink()  # how they were drawn is no longer known either
    code, printed = cli(
        "run", tiny_yaml, "--output", broken, "--store", store, "retraining.epochs=3", "search.trials=6",
        "search.failures_in_a_row=2", "search.concurrency=1",
    )  # fmt: skip
    assert code == 1, printed
    assert "2 trials in a row failed" in printed
    assert "does not match its digest" in printed
    assert "Traceback" not in printed
    assert summary_of(broken).status == "failed"
    failed = [trial for trial in summary_of(broken).trials if trial.status == "failed"]
    assert failed
    assert all("mask.safetensors does not match its digest" in trial.error for trial in failed)
    assert states_of(broken)[: len(failed)] == [TrialState.FAIL] * len(failed)

    shutil.rmtree(store / "draw")
    code, printed = cli("resume", broken, "--retry-errors", "--store", store)
    assert code == 0, printed
    assert f"retried after an error: {len(failed)}" in printed
    mended = summary_of(broken)
    assert [(trial.id, trial.status) for trial in mended.trials] == [(f"t{n:03d}", "complete") for n in range(6)]
    assert [trial.attempt for trial in mended.trials][: len(failed)] == [2] * len(failed)
    assert [trial.params for trial in mended.trials][: len(failed)] == [trial.params for trial in failed]
    assert len(runs_of(broken)) == 1 + 6 + 1, "a run is taken up again with its trial"
    assert {run.info.status for run in runs_of(broken)} == {"FINISHED"}


def winner_of(summary):
    [winner] = [trial for trial in summary.trials if trial.id == summary.selected.trial]
    return winner


def test_ctrl_c_ends_in_good_order_and_the_search_can_go_on(start, cli, tiny_yaml, tmp_path, environment):
    out = tmp_path / "out"
    more = ("search.trials=5", "search.concurrency=1", "--output", out)
    process = start("run", tiny_yaml, *more)
    deadline = time.monotonic() + 240
    while not (out / "trials.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 130, printed
    assert f"tune-tickets resume {out}" in printed
    assert "Traceback" not in printed
    before = summary_of(out)
    assert before.status == "interrupted"
    assert 1 <= len([trial for trial in before.trials if trial.status == "complete"]) < 5
    assert {run.info.status for run in runs_of(out)} <= {"FINISHED", "KILLED"}
    assert left_behind(environment[TAG]) == []

    code, printed = cli("run", tiny_yaml, *more)
    assert code == 2
    assert "--resume" in printed
    code, printed = cli("resume", out)
    assert code == 0, printed
    assert "Resumed. Trials finished: " in printed
    assert "5/5 trials done" in printed, "those of the first session are counted"
    after = summary_of(out)
    assert after.status == "finished"
    complete = [trial for trial in after.trials if trial.status == "complete"]
    assert [trial.id for trial in complete] == [f"t{number:03d}" for number in range(5)]
    assert states_of(out) == [TrialState.COMPLETE] * 5
    assert {run.info.status for run in runs_of(out)} == {"FINISHED"}
    assert len(runs_of(out)) == 1 + 5 + 1
    kept = {trial.id: trial.metrics for trial in after.trials}
    assert all(kept[trial.id] == trial.metrics for trial in before.trials if trial.status == "complete")


def test_a_trial_whose_process_is_killed_goes_on_in_another(start, tiny_yaml, tmp_path, environment):
    out = tmp_path / "out"
    more = ("search.trials=2", "search.concurrency=1", "retraining.epochs=20")
    process = start("run", tiny_yaml, *more, "--output", out)
    os.kill(coordinator(environment, out / "store" / "retrain"), signal.SIGKILL)
    printed, _ = process.communicate(timeout=240)
    assert process.returncode == 0, printed
    summary = summary_of(out)
    assert [(trial.status, trial.attempt) for trial in summary.trials] == [("complete", 1)] * 2, printed
    assert all([epoch for epoch, _ in trial.rungs] == list(range(1, 21)) for trial in summary.trials)
    assert states_of(out) == [TrialState.COMPLETE] * 2
    assert len(runs_of(out)) == 1 + 2 + 1


def coordinator(environment: dict[str, str], retrained: Path) -> int:
    """The process of the only trial under way, once it and the dense control are being trained."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        time.sleep(0.1)
        for process in Path("/proc").glob("[0-9]*") if len(list(retrained.glob("*/history.json"))) > 1 else ():
            with suppress(OSError):
                ours = f"{TAG}={environment[TAG]}".encode() in (process / "environ").read_bytes().split(b"\0")
                if ours and (process / "cmdline").read_bytes().startswith(b"ray::ImplicitFunc"):
                    return int(process.name)
    pytest.fail("no trial is under way")


def test_a_ticket_that_can_no_longer_win_is_given_up_with_its_bound(cli, tiny_yaml, tmp_path):
    out = tmp_path / "out"
    starts = [{"retraining.learning_rate": 3.0e-3}, {"retraining.learning_rate": 1.0e-7}]
    code, printed = cli(
        "run", tiny_yaml, "--output", out, "search.trials=2", "search.concurrency=1", "objective.floor_points=null",
        "method={kind: finetune}", "retraining.learning_rate={choice: [3.0e-3, 1.0e-7]}", "evaluation.shard=3",
        "evaluation.early_exit=true", f"search.warm_starts={json.dumps(starts)}",
    )  # fmt: skip
    assert code == 0, printed
    best, beaten = summary_of(out).trials
    assert (best.status, beaten.status) == ("complete", "pruned")
    assert (beaten.values, beaten.outcome, beaten.metrics) == (None, None, {})
    assert beaten.bound[0] < best.values[0]
    assert "can no longer beat the best ticket: at most" in printed
    assert states_of(out) == [TrialState.COMPLETE, TrialState.PRUNED]
    storage = optuna.storages.RDBStorage(f"sqlite:///{out}/optuna.db")
    [study] = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=study.study_name, storage=storage).trials
    assert trials[1].user_attrs["bound"] == list(beaten.bound)
    assert len([stage for stage in best.stages if stage.name == "attack"]) > 1
    assert len([stage for stage in beaten.stages if stage.name == "attack"]) < len(best.stages) - 2


def test_asha_ends_trials_early_and_optuna_knows_them_as_pruned(cli, tiny_yaml, tmp_path):
    out = tmp_path / "out"
    code, printed = cli(
        "run", tiny_yaml, "--output", out, "search.trials=5", "search.concurrency=1", "objective.kind=pareto",
        "search.scheduler={kind: asha, grace_epochs: 1, reduction_factor: 2}",
        "retraining.learning_rate={choice: [3.0e-3, 1.0e-7]}",
    )  # fmt: skip
    assert code == 0, printed
    summary = summary_of(out)
    pruned = [trial for trial in summary.trials if trial.status == "pruned"]
    assert pruned, [trial.params for trial in summary.trials]
    assert set(states_of(out)) == {TrialState.COMPLETE, TrialState.PRUNED}
    assert all(trial.values is None and trial.outcome is None for trial in pruned)
