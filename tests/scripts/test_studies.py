"""The studies run end to end on the tiny model. Their results mean nothing here and are not checked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "studies" / "debiasing.py"
sys.path.insert(0, str(SCRIPT.parent.parent))
from studies.debiasing import Margin, Run, margin, verdict  # noqa: E402


def test_margins_are_paired_by_seed_and_have_a_students_interval():
    figures = {0: (50.0, 60.0), 1: (52.0, 64.0), 2: (48.0, 62.0)}
    runs = [Run(seed, "masks, ce", 90.0, ce, {}) for seed, (ce, _) in figures.items()]
    runs += [Run(seed, "masks, poe", 88.0 - seed, poe, {}) for seed, (_, poe) in figures.items()]
    found = margin(runs, "ood")
    # Differences 10, 12, 14: mean 12, deviation 2, t of two degrees of freedom 4.3026527.
    half = 4.3026527 * 2 / 3**0.5
    assert (found.mean, found.low, found.high) == pytest.approx((12, 12 - half, 12 + half))
    assert margin(runs, "id").mean == pytest.approx(-3)


def test_a_gain_needs_an_interval_above_zero_and_no_large_drop():
    small = Margin(-3.0, -6.0, 0.0)
    assert verdict(Margin(12.0, 7.0, 17.0), small) == "PoE beats CE out of distribution."
    assert "do not tell" in verdict(Margin(12.0, -1.0, 25.0), small)
    assert "more than 5 points" in verdict(Margin(12.0, 7.0, 17.0), Margin(-5.1, -6.0, -4.0))


@pytest.mark.integration
def test_the_study_compares_both_losses_from_one_fine_tuned_model(tiny_backbone, tmp_path):
    out = tmp_path / "study.json"
    command = [sys.executable, str(SCRIPT), "--seeds", "2", "--store", str(tmp_path / "store"), "--json", str(out)]
    command += [
        f"model={{source: {tiny_backbone}}}",
        "task.rows={train: 48, select: 24, report: 8}",
        "task.max_length=24",
    ]
    command += [
        "task.planted={markers: [film, plot], rows: {select: 24, report: 8}}",
        "method.epochs=1.0",
        "method.finetuning.epochs=1",
    ]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(out.read_text())
    models = ["fine-tuned, ce", "masks, ce", "masks, poe"]
    assert [(run["seed"], run["model"]) for run in report["runs"]] == [(s, m) for s in (0, 1) for m in models]
    assert set(report["runs"][0]["groups"]) == {"agreeing", "misleading"}
    assert "masks with PoE minus masks with CE, OOD:" in ended.stdout
