"""The whole YAML file as one schema."""

from pydantic import Field, model_validator

from tune_tickets.config.evaluation import Controls, Evaluation
from tune_tickets.config.method import AnyMethod, method_type
from tune_tickets.config.objective import Objective
from tune_tickets.config.search import Resources, Search, Tracking
from tune_tickets.config.section import Section
from tune_tickets.config.task import CORPUS, TASK, Model, Task, TaskName, Transfer
from tune_tickets.config.training import Ablation, Retraining, debiasings

DEFAULT_METHOD = "earlyrobust"


class Settings(Section):
    """One experiment with every value fixed: what a single trial runs with."""

    name: str = Field(
        "experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="Names the results and the MLflow run"
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of splits, initialisation, training and attacks")
    model: Model = Field(default_factory=Model)
    task: Task = Field(default_factory=Task)
    transfer: dict[TaskName, Transfer] = Field(
        default_factory=dict, description="Further tasks, by name, that the one ticket is trained and measured on"
    )
    method: AnyMethod = Field(default_factory=lambda: method_type(DEFAULT_METHOD)(kind=DEFAULT_METHOD))
    retraining: Retraining = Field(default_factory=Retraining)
    ablation: Ablation = Field(default_factory=Ablation)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    controls: Controls = Field(default_factory=Controls)
    objective: Objective = Field(default_factory=Objective)
    search: Search = Field(default_factory=Search)
    resources: Resources = Field(default_factory=Resources)
    tracking: Tracking = Field(default_factory=Tracking)
    store: str | None = Field(None, description="Folder or fsspec URL of the stage store; null: next to the results")

    def attacked_rows(self, task: str) -> int:
        """Return how many rows of a further task are attacked."""
        return self.transfer[task].attacked_rows or self.evaluation.rows

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
        if any(each.relative_to for each in self.objective.constraints) and not self.controls.dense:
            raise ValueError(
                "objective.constraints has a bound relative to the dense control, but controls.dense is false: "
                "switch it on, or remove relative_to"
            )
        return self

    @model_validator(mode="after")
    def _check_budget(self) -> "Settings":
        if self.search.budget.gpu_hours is not None and self.resources.gpus == 0:
            raise ValueError(
                "search.budget.gpu_hours has no effect while resources.gpus is 0: give stages a GPU or a fraction of "
                "one, or limit cpu_hours or wall_clock_hours"
            )
        return self

    @model_validator(mode="after")
    def _check_method(self) -> "Settings":
        self.method.check(self)
        return self

    @model_validator(mode="after")
    def _check_bias_models(self) -> "Settings":
        columns = self.task.columns
        for bias in (debiasing.bias for debiasing in debiasings(self) if debiasing.experts):
            if bias.features == "overlap" and len(columns) != 2:
                raise ValueError(
                    f"a bias model on word overlap needs a pair of texts, and the task has only {columns[0]!r}: "
                    "set task.text to two columns, or debiasing.bias.features to claim or marker"
                )
            if bias.features == "marker" and bias.markers is None and self.task.planted is None:
                raise ValueError(
                    "a bias model on markers has no markers, and the task plants none: "
                    "list them in debiasing.bias.markers, or set task.planted"
                )
            if bias.column is not None and bias.column not in columns:
                raise ValueError(f"debiasing.bias.column is {bias.column!r}, which is not one of the columns {columns}")
        return self

    @model_validator(mode="after")
    def _check_tasks(self) -> "Settings":
        for name, other in self.transfer.items():
            if name in (CORPUS, TASK):
                raise ValueError(f"transfer.{name}: {name!r} is reserved for method.search_on; choose another name")
            if self.attacked_rows(name) > other.task.rows.select:
                raise ValueError(
                    f"{self.attacked_rows(name)} attacked rows are more than transfer.{name}.task.rows.select "
                    f"({other.task.rows.select}), from which they are drawn: set transfer.{name}.attacked_rows"
                )
            if other.task.twins:
                raise ValueError(
                    f"transfer.{name}.task has OOD twins ({', '.join(other.task.twins)}), but only those of the main "
                    "task are measured: remove them, or make it the main task"
                )
        if self.transfer and any(debiasing.experts for debiasing in debiasings(self)):
            raise ValueError(
                "a bias model and a teacher only cover the rows of the main task: remove debiasing, or transfer"
            )
        if self.transfer and self.evaluation.early_exit:
            raise ValueError(
                "evaluation.early_exit only looks at the main task, and could stop tickets that are best over all "
                "tasks of transfer: switch it off, or remove transfer"
            )
        return self


def uses_ood_information(settings: Settings) -> bool:
    """Return whether OOD rows are used for training (an upper bound) or in the objective."""
    return settings.method.trains_on_ood or any(name.split("/")[0] == "ood" for name in settings.objective.terms)
