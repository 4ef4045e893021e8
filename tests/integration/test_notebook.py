"""The Python API end to end on the tiny model, as in a notebook."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import TAG, left_behind

pytestmark = pytest.mark.integration
SCRIPT = Path(__file__).with_name("notebook.py")


def test_a_notebook_tunes_loads_predicts_and_attacks_inside_a_running_event_loop(
    environment, tiny_yaml, tiny_data, tmp_path
):
    out = tmp_path / "out"
    command = [sys.executable, str(SCRIPT), str(tiny_yaml), str(out), str(tiny_data)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == ["finished"] * 3
    assert found["trials"] == [2, 2, 2], "a resumed search that was done adds nothing"
    assert found["computed"] == 0, "the thread's search found every stage in the store"
    assert found["events"] > 4
    assert found["best"] == str(out / "best_ticket.safetensors")
    assert "Aua%" in found["table"]
    assert found["answers"] == ["pos", "neg"]
    assert list(found["searched"].values()) == found["winner"], "on the rows of the search its figures come out again"
    assert found["own"] == [3]
    assert "fingerprint" in found["own_table"]
    assert found["fresh"].startswith("Attacked(6 rows of ")
    assert "rows" in done.stderr, "attacks say how far they are"
    assert "Traceback" not in done.stderr
    assert left_behind(environment[TAG]) == []
