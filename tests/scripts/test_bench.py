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


def test_attack_bench_compares_with_stock_and_the_bare_passes(tiny_backbone, tiny_data, tmp_path):
    out = tmp_path / "attack.json"
    command = [sys.executable, str(SCRIPT), "attack", "--model", str(tiny_backbone), "--data", str(tiny_data)]
    command += ["--rows", "6", "--stock-rows", "3", "--train-rows", "48", "--epochs", "1", "--rounds", "1"]
    command += ["--threat", "textbugger/minilm", "--threads", "1", "--json", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "x floor" in ended.stdout
    [row] = json.loads(out.read_text())["threats"]
    assert row["compared_rows"] == 3
    assert row["mismatches"] == 0, "the tiny victim is far from any tie"
    assert row["over_stock"] == pytest.approx(row["queries_per_second"]["ours"] / row["queries_per_second"]["stock"])
    assert sum(row["share_of_time"].values()) == pytest.approx(1.0)
    assert row["second_trial"]["ratio"] > 0
