"""Logging a search to MLflow. Importing this folder sets mlflow up, which reads these variables when imported."""

import os

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# mlflow's own defaults (120 s, 7 times) would hold up the driver for minutes when a server is gone.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
# Its progress bars would break into ours.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
