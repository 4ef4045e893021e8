"""Where MLflow's database and artifacts stand in a results folder; shared by the tracker and by `tune-tickets ui`."""

from pathlib import Path

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"


def database_uri(results: Path) -> str:
    """The tracking URI of the SQLite database inside `results`."""
    return f"sqlite:///{(results / DATABASE).resolve().as_posix()}"


def artifact_folder(results: Path) -> Path:
    """The folder inside `results` that holds the artifacts of all runs."""
    return (results / ARTIFACTS).resolve()
