"""`tracking:` where MLflow keeps what was tried."""

from pydantic import Field

from tune_tickets.config.section import Section


class Tracking(Section):
    """Written by the driver alone."""

    mlflow: bool = Field(True, description="Log to MLflow")
    uri: str | None = Field(None, description="Tracking URI; null: a SQLite database in the results folder")
    experiment: str | None = Field(None, description="MLflow experiment; null takes the experiment's name")
