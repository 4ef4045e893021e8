"""`transfer:` further tasks that the one ticket of a trial is trained and measured on."""

from typing import Annotated

from pydantic import Field

from tune_tickets.config.early_bird import Drawing
from tune_tickets.config.retraining import Retraining
from tune_tickets.config.section import Section
from tune_tickets.config.task import Task

TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$")]


class Transfer(Section):
    """A task beside the main one. The ticket's scores are shared; how much is cut by them may differ (section 2.3)."""

    task: Task = Field(default_factory=Task)
    drawing: Drawing | None = Field(
        None, description="Ratios on this task, for methods that cut heads and neurons by a share; null: the method's"
    )
    retraining: Retraining | None = Field(None, description="Training on this task; null: as on the main one")
    attacked_rows: int | None = Field(None, ge=1, description="Select rows attacked; null: evaluation.rows")
