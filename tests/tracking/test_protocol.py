import sys

import pytest

from tests.tracking.conftest import SETTINGS, make_control, make_summary, make_trial
from tune_tickets.config.search import Tracking
from tune_tickets.tracking.protocol import AnyTracker, SearchInputs, open_tracker


def test_tracking_that_is_switched_off_keeps_nothing_and_writes_nothing(tmp_path):
    tracker = open_tracker(Tracking(mlflow=False), tmp_path, "demo", SETTINGS, "digest")
    tracker.log_inputs(SearchInputs())
    tracker.start_trial("t0", 0, {})
    tracker.log("t0", {"probe": 1.0}, 1)
    tracker.finish_trial(make_trial(), {})
    tracker.log_control(make_control(), {})
    tracker.finish(make_summary([make_trial()]), {})
    tracker.register(make_summary([make_trial()]), {"": (tmp_path / "best_ticket.safetensors", ("text",))})
    assert tracker.problems == ()
    assert list(tmp_path.iterdir()) == []


def test_the_protocol_does_not_import_mlflow():
    import subprocess

    script = "import sys, tune_tickets.tracking.protocol, tune_tickets.tracking.place; print('mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.integration
def test_the_default_store_is_inside_the_results_folder(results):
    tracker = open_tracker(Tracking(), results, "demo", SETTINGS, "digest")
    assert type(tracker) is not AnyTracker
    tracker.finish_trial(make_trial(), {})
    assert {path.name for path in results.iterdir()} == {"mlflow.db", "mlartifacts"}
