"""The whole YAML file as one schema."""

from pydantic import Field, model_validator

from tune_tickets.config.ablation import Ablation
from tune_tickets.config.evaluation import Controls, Evaluation
from tune_tickets.config.method import EarlyRobust, Method
from tune_tickets.config.model import Model
from tune_tickets.config.objective import Objective
from tune_tickets.config.resources import Resources
from tune_tickets.config.retraining import Retraining
from tune_tickets.config.search import Search
from tune_tickets.config.section import Section
from tune_tickets.config.task import Task
from tune_tickets.config.tracking import Tracking


class Settings(Section):
    """One experiment with every value fixed: what a single trial runs with."""

    name: str = Field(
        "experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="Names the results and the MLflow run"
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of splits, initialisation, training and attacks")
    model: Model = Field(default_factory=Model)
    task: Task = Field(default_factory=Task)
    method: Method = Field(default_factory=EarlyRobust)
    retraining: Retraining = Field(default_factory=Retraining)
    ablation: Ablation = Field(default_factory=Ablation)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    controls: Controls = Field(default_factory=Controls)
    objective: Objective = Field(default_factory=Objective)
    search: Search = Field(default_factory=Search)
    resources: Resources = Field(default_factory=Resources)
    tracking: Tracking = Field(default_factory=Tracking)
    store: str | None = Field(None, description="Folder or fsspec URL of the stage store; null: beside the results")

    @model_validator(mode="after")
    def _check_sizes(self) -> "Settings":
        if self.evaluation.rows > self.task.rows.select:
            raise ValueError(
                f"evaluation.rows ({self.evaluation.rows}) is more than task.rows.select ({self.task.rows.select}): "
                "attacked rows are drawn from the select rows"
            )
        if self.objective.floor_points is not None and not self.controls.dense:
            raise ValueError(
                "objective.floor_points is relative to the dense control, but controls.dense is false: "
                "switch it on, or set objective.floor_points to null (and perhaps objective.floor_clean)"
            )
        return self
