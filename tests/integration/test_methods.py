"""Every method runs through the one command and lands in MLflow under the same metric names."""

import json
from pathlib import Path

import pytest

from tests.integration.test_search import runs_of
from tune_tickets import load_ticket

pytestmark = pytest.mark.integration
YAML = """\
name: methods
model: {{source: {model}}}
task: {{source: {data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
method:
  kind: {{choice: [earlyrobust, robustt, random, finetune]}}
  penalty: {{choice: [0.1, 0.5], when: {{method.kind: robustt}}}}
retraining: {{epochs: 8, learning_rate: 3.0e-3, batch_size: 16}}
evaluation: {{attacks: [textbugger/minilm], rows: 6, probe: {{rows: 16}}}}
controls: {{random: true}}
objective: {{floor_points: null}}
search:
  trials: 4
  scheduler: {{kind: none}}
  warm_starts: [{starts}]
"""
WANTED = {"clean", "aua", "aua/textbugger/minilm", "suc/textbugger/minilm", "queries/textbugger/minilm", "objective"}
KINDS = ("earlyrobust", "robustt", "random", "finetune")


def test_all_methods_in_one_experiment(cli, tiny_backbone, tiny_data, tmp_path):
    path = tmp_path / "methods.yaml"
    starts = ", ".join(f"{{method.kind: {kind}}}" for kind in KINDS)
    path.write_text(YAML.format(model=tiny_backbone, data=tiny_data, starts=starts), encoding="utf-8")
    out = tmp_path / "out"
    code, printed = cli("run", path, "--output", out)
    assert code == 0, printed
    summary = json.loads((out / "summary.json").read_text())
    assert [trial["params"]["method.kind"] for trial in summary["trials"]] == list(KINDS)
    assert [trial["status"] for trial in summary["trials"]] == ["complete"] * 4
    assert load_ticket(out / "best_ticket.safetensors").predict(["a good film"])
    logged = [set(run.data.metrics) for run in runs_of(Path(out)) if run.info.run_name.startswith("trial")]
    assert len(logged) == 4
    assert all(metrics >= WANTED for metrics in logged)
