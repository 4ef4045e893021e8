"""The same trial twice writes the same files, to the last bit."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "scripts"))
from studies import bits


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    small = ("retraining.epochs=1", "task.rows={train: 48, select: 16, report: 8}", "evaluation.rows=2")
    monkeypatch.setitem(bits.METHODS, "small", (*bits.METHODS["robustt"], *small))
    return bits.prepare(tmp_path / "tiny")


def test_a_trial_that_is_resumed_from_the_store_or_repeated_has_the_same_bits(tiny, tmp_path):
    first = bits.bits(tiny, "small", tmp_path / "one")
    assert [stage["stage"] for stage in first["stages"]] == [
        "retrain",
        "masks",
        "draw",
        "retrain",
        "evaluate",
        "attack",
    ]
    assert any(file for stage in first["stages"] for file in stage["files"])
    resumed = bits.bits(tiny, "small", tmp_path / "one")
    again = bits.bits(tiny, "small", tmp_path / "two")
    assert bits.differences({"small": first}, {"small": resumed}) == []
    assert bits.differences({"small": first}, {"small": again}) == []


def test_a_changed_bit_is_told():
    stage = {"stage": "draw", "files": {"mask.safetensors": "a"}, "record": "r", "history": "h"}
    other = {**stage, "files": {"mask.safetensors": "b"}}
    before = {"imp": {"metrics": {"clean": 50.0}, "stages": [stage]}}
    now = {"imp": {"metrics": {"clean": 51.0}, "stages": [other]}}
    told = ["imp, stage 0, draw: files differ", "imp: clean 50.0 -> 51.0"]
    assert bits.differences(before, now) == told
