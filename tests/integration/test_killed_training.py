"""A training whose process is really killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tune_tickets.training.schedule import LEAST_STEPS

SCRIPT = Path(__file__).parent / "killed_training.py"
ROOT = SCRIPT.parent.parent.parent
pytestmark = pytest.mark.integration


def test_kills_at_any_moment_cost_at_most_a_mini_epoch_each_and_no_bit(tiny_yaml, tmp_path):
    command = [sys.executable, str(SCRIPT), str(tiny_yaml), str(tmp_path), "6"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert len(found["kills"]) == 6
    lost = [under_way - kept for under_way, kept in found["kills"]]
    assert all(0 <= steps <= LEAST_STEPS for steps in lost), "begun since the last state; none, right after it was kept"
    assert any(lost)
    assert found["same"], "weights and history are those of an undisturbed training"
