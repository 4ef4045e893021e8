"""The benches run from end to end on the tiny model; what they measure here means nothing and is not looked at."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "bench.py"
pytestmark = pytest.mark.integration


def test_masks_bench_compares_steps_memory_and_the_folded_ticket(tiny_backbone, tmp_path):
    out = tmp_path / "masks.json"
    command = [sys.executable, str(SCRIPT), "masks", "--model", str(tiny_backbone), "--batch", "4", "--tokens", "8"]
    command += ["--tokens", "6", "--rounds", "2", "--warmup", "1", "--threads", "1", "--json", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "at 4 x 8 tokens" in ended.stdout
    report = json.loads(out.read_text())
    assert [(step["tokens"], step["passes"]) for step in report["steps"]] == [(8, 1), (8, 3), (6, 1), (6, 3)]
    assert [forward["tokens"] for forward in report["attack"]] == [8, 6]
    for row in report["steps"]:
        assert row["ratio"] == pytest.approx(row["masked"]["minimum"] / row["dense"]["minimum"], rel=0.05)

    # 2 layers of four 32 x 32, two 32 x 48 matrices, and the pooler; AdamW keeps two values per weight and a count.
    gated = 2 * (4 * 32 * 32 + 2 * 32 * 48) + 32 * 32
    memory = report["memory"]
    assert memory["masked"] == {"gradients": 4 * gated, "optimizer_state": 2 * 4 * gated + 4 * 13}
    assert memory["dense"]["gradients"] > memory["masked"]["gradients"]
    assert memory["gradients_ratio"] == pytest.approx(4 * gated / memory["dense"]["gradients"], abs=1e-4)
