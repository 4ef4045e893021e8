"""Several methods in one experiment and in one table, and two experiments compared."""

import json
import shutil

import pytest

from tune_tickets.reports.side_by_side import SideBySide
from tune_tickets.results.records import Summary

pytestmark = pytest.mark.integration
YAML = """\
name: methods
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
method:
  kind: {{choice: [finetune, earlyrobust]}}
  batch_size: {{choice: [16], when: {{method.kind: earlyrobust}}}}
  mini_epoch: {{choice: [0.125], when: {{method.kind: earlyrobust}}}}
  adversary: {{steps: {{choice: [2], when: {{method.kind: earlyrobust}}}}}}
retraining:
  epochs: 8
  learning_rate: 3.0e-3
  batch_size: 16
  adversary: {{kind: {{choice: [none, pgd, freelb]}}, steps: 2}}
evaluation: {{attacks: [textbugger/minilm], rows: 8, probe: {{rows: 16}}}}
controls: {{random: true}}
objective: {{floor_points: null}}
search:
  trials: 4
  scheduler: {{kind: none}}
  warm_starts:
    - {{method.kind: earlyrobust, retraining.adversary.kind: none}}
    - {{method.kind: finetune, retraining.adversary.kind: none}}
    - {{method.kind: finetune, retraining.adversary.kind: pgd}}
    - {{method.kind: finetune, retraining.adversary.kind: freelb}}
"""


def test_methods_are_compared_in_one_experiment_and_experiments_with_each_other(
    cli, tiny_backbone, tiny_data, tmp_path
):
    path = tmp_path / "methods.yaml"
    path.write_text(YAML.format(model=tiny_backbone, data=tiny_data), encoding="utf-8")
    one, two = tmp_path / "one", tmp_path / "two"
    code, printed = cli("run", path, "--output", one)
    assert code == 0, printed
    summary = Summary.model_validate_json((one / "summary.json").read_text(encoding="utf-8"))
    ticket, dense, pgd, freelb = summary.trials
    # Eight epochs: once over the rows, PGD-2 three times, FreeLB-2 twice. A mini-epoch of the search is 16 of 128 rows.
    assert [trial.cost.retraining.passes for trial in summary.trials] == [8.0, 8.0, 24.0, 16.0]
    assert [trial.cost.search.passes > 0.0 for trial in summary.trials] == [True, False, False, False]
    assert ticket.cost.search.passes * 128 % (16 * 2) == 0
    assert [(base.adversary, base.trial, base.passes) for base in summary.cost_baselines] == [
        ("pgd", pgd.id, 24.0),
        ("freelb", freelb.id, 16.0),
    ]
    # What the controls share with a trial, they share down to the seconds.
    control = next(control for control in summary.controls if control.kind == "dense")
    assert control.outcome.retrain_digest == dense.outcome.retrain_digest
    assert control.cost == dense.cost
    assert "PGD is trial 2: 8 epochs of PGD-2, 24 passes." in printed
    header = next(line for line in printed.splitlines() if "passes/PGD" in line)
    assert "passes/FreeLB" in header

    two.mkdir()
    for file in ("summary.json", "config.yaml"):
        shutil.copy(one / file, two)
    code, printed = cli("compare", one, two, "--json", tmp_path / "out.json", "--markdown", tmp_path / "out.md")
    assert code == 0, printed
    found = SideBySide.model_validate(json.loads((tmp_path / "out.json").read_text(encoding="utf-8")))
    assert [(pair.one, pair.other, pair.p_value) for pair in found.comparisons] == [("A", "B", 1.0)]
    assert (found.notes, found.differences) == ((), {})
    assert "the ticket of A is level with that of B" in printed
    mark = "" if summary.selected.beaten else "* "
    assert f"| {mark}A trial" in (tmp_path / "out.md").read_text(encoding="utf-8")
