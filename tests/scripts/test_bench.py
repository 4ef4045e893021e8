"""The benchmarks run end to end on the tiny model. Their numbers mean nothing here and are not checked."""

import json
import os
import subprocess
import sys
import tempfile
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


def test_checkpoints_bench_compares_training_with_and_without_kept_states(tiny_backbone, tmp_path):
    out = tmp_path / "checkpoints.json"
    command = [sys.executable, str(SCRIPT), "checkpoints", "--model", str(tiny_backbone), "--batch", "4"]
    command += ["--tokens", "8", "--rounds", "1", "--warmup", "1", "--mini-epoch", "3", "--json", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "FreeLB-3" in ended.stdout
    rows = json.loads(out.read_text())["rows"]
    assert [(row["mini_epoch"], row["passes"]) for row in rows] == [(3, 1), (3, 3)]
    for row in rows:
        for each, name in ((row["kept"], "kept"), (row["waiting"], "waiting")):
            assert each["ratio"] == pytest.approx(each[name]["minimum"] / each["alone"]["minimum"], rel=0.01)


def test_attack_bench_compares_with_stock_and_the_bare_passes(tiny_backbone, tiny_data, tmp_path):
    out = tmp_path / "attack.json"
    command = [sys.executable, str(SCRIPT), "attack", "--model", str(tiny_backbone), "--data", str(tiny_data)]
    command += ["--rows", "6", "--stock-rows", "3", "--train-rows", "48", "--epochs", "1", "--rounds", "1"]
    command += ["--threat", "textbugger/minilm", "--threat", "bert-attack/minilm", "--json", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "x floor" in ended.stdout
    rows = json.loads(out.read_text())["threats"]
    assert [row["threat"] for row in rows] == ["textbugger/minilm", "bert-attack/minilm"]
    for row in rows:
        assert row["compared_rows"] == 3
        assert row["mismatches"] == 0, "the tiny victim is far from any tie"
        speed = row["queries_per_second"]
        assert row["over_stock"] == pytest.approx(speed["ours"] / speed["stock"])
        assert sum(row["share_of_time"].values()) == pytest.approx(1.0)
        assert row["second_trial"]["ratio"] > 0
        assert row["most_over_stock"] * speed["stock"] == pytest.approx(row["queries"] / row["seconds"]["arithmetic"])
        assert 0 < row["seconds"]["arithmetic"] < row["seconds"]["floor"]
    assert [row["share_of_time"]["masked_lm"] > 0 for row in rows] == [False, True]


def test_search_bench_runs_one_search_with_one_worker_with_two_and_from_the_store(tiny_backbone, tiny_data, tmp_path):
    out = tmp_path / "search.json"
    command = [sys.executable, str(SCRIPT), "search", "--model", str(tiny_backbone), "--data", str(tiny_data)]
    command += ["--trials", "2", "--train-rows", "64", "--epochs", "1", "--attacked-rows", "4", "--select-rows", "24"]
    command += ["--batch", "16", "--tokens", "24", "--steps", "1", "--json", str(out)]
    with tempfile.TemporaryDirectory(prefix="tt-") as ray_folder:
        ended = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"TUNE_TICKETS_RAY_DIR": ray_folder}
        )
    assert ended.returncode == 0, ended.stderr
    assert "x as fast (1.7 wanted)" in ended.stdout
    report = json.loads(out.read_text())
    seconds, trials = report["seconds"], report["trials_seconds"]
    assert report["ratio"] == pytest.approx(seconds["one"] / seconds["two"], rel=0.01)
    assert report["trials_ratio"] == pytest.approx(trials["one"] / trials["two"], rel=0.01)
    assert all(trials[name] < seconds[name] for name in ("one", "two", "cached"))
    assert report["computed_when_cached"] == 0
    assert report["stage_seconds"]["cached"] == [0.0, 0.0]
    # One after the other: the second trial begins when the first has ended.
    first, second = report["stage_seconds"]["one"]
    assert first > 0 < second
    assert 0 < report["overhead"]["computed"] < trials["one"] - second
    assert report["overhead"]["cached"] == pytest.approx(trials["cached"] / 2, rel=0.01)


def test_export_bench_compares_the_ticket_with_the_dense_model_in_both_runtimes(tiny_backbone, tmp_path):
    out = tmp_path / "export.json"
    command = [sys.executable, str(SCRIPT), "export", "--model", str(tiny_backbone), "--heads", "0.25", "--words", "8"]
    command += ["--batch", "1", "--batch", "4", "--rounds", "2", "--warmup", "1", "--threads", "1", "--json", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "In onnxruntime, batch 4: the ticket takes" in ended.stdout
    report = json.loads(out.read_text())
    assert [row["batch"] for row in report["rows"]] == [1, 4]
    assert report["bytes"]["ticket"] < report["bytes"]["dense"]
    # 32 wide, 2 layers of 4 heads of 8 and 48 neurons; of 8 heads 2 are cut, of 96 neurons 29 (30%, rounded up).
    tokens = report["rows"][0]["tokens"]
    dense, left = 2 * (4 * 32 * 32 + 2 * tokens * 32 + 2 * 32 * 48), 4 * 32 * 48 + 2 * tokens * 48 + 2 * 32 * 67
    assert report["flops_percent"] == pytest.approx(100 * left / dense, abs=0.01)
    for row in report["rows"]:
        assert row["logits_apart"] < 1e-4
        figures = row["onnxruntime"]
        expected = figures["onnx ticket"]["minimum"] / figures["onnx dense"]["minimum"]
        assert figures["ratio"] == pytest.approx(expected, rel=0.05)
