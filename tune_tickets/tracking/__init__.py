"""Logs a search to MLflow. These variables are set here because mlflow reads them when it is imported."""

import os

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# mlflow's own defaults (120 s, 7 times) would delay the driver for minutes when a server is gone.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
# Its progress bars would disturb ours.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
