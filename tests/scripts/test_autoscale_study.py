"""Real autoscaling: simulated GPU nodes, a real autoscaler, a real search, and a node killed while it computes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, TAG, left_behind

pytestmark = pytest.mark.integration
SCRIPT = ROOT / "scripts" / "cluster" / "autoscale_study.py"


@pytest.fixture
def experiment(tmp_path: Path, tiny_backbone: Path, tiny_data: Path) -> Path:
    """Two trials that share no stage, each long enough to be disturbed."""
    path = tmp_path / "autoscale.yaml"
    path.write_text(
        f"""\
name: autoscale
model: {{source: {tiny_backbone}}}
task: {{source: {tiny_data}, max_length: 24, rows: {{train: 128, select: 48, report: 32}}}}
method: {{kind: finetune}}
retraining: {{epochs: 24, learning_rate: {{log_uniform: [1.0e-3, 5.0e-3]}}, batch_size: 16}}
evaluation: {{attacks: [textbugger/minilm], rows: 2, probe: {{rows: 16}}}}
search: {{trials: 2, sampler: random, scheduler: {{kind: none}}}}
""",
        encoding="utf-8",
    )
    return path


def test_nodes_come_for_all_pending_stages_a_lost_one_costs_no_trial_and_all_go_when_idle(experiment, tmp_path):
    seen = tmp_path / "seen.json"
    command = [sys.executable, str(SCRIPT), str(experiment), "--nodes", "2", "--idle", "6", "--json", str(seen)]
    command += ["--output", str(tmp_path / "results")]
    environment = os.environ | {TAG: str(tmp_path), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    study = json.loads(seen.read_text()) if seen.exists() else {}
    assert ended.returncode == 0, f"{study}\n{ended.stdout}\n{ended.stderr}"
    assert study["faults"] == []
    assert (study["peak"], study["peak_busy"]) == (2, 2)
    assert study["killed"]
    assert (study["trials"], study["complete"]) == (2, 2)
    assert [alive for _, alive in study["ups"]][-1] == 0, "back to none"
    assert "needs 1 GPU, 0 free, autoscaler may add 4" in ended.stdout
    assert left_behind(str(tmp_path)) == []
