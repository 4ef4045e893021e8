"""How long a stage is kept for a trial that gives no sign of life."""

import os

from tune_tickets.trial.broker import HEARTBEAT_SECONDS


def test_a_tracking_server_that_does_not_answer_costs_no_trial_its_stage():
    import tune_tickets.tracking.runs  # noqa: F401 - says how long it asks a server

    tries = 1 + int(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
    assert 2 * tries * float(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"]) < HEARTBEAT_SECONDS
