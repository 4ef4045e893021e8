"""The base of all records."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of all records: unknown keys are errors, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
