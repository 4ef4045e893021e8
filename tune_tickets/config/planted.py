"""`task.planted:` a spurious marker planted in a task, so that a known bias can be studied anywhere."""

from pydantic import Field, field_validator

from tune_tickets.config.ood import TwinRows
from tune_tickets.config.section import Section


class Planted(Section):
    """A marker per label, put before the text (the first one of a pair) with a space between.

    In train, select and report rows it agrees with the label as often as `strength` says; the OOD twin `reversed` is
    made of rows that are in no other split, and there it agrees with the share `ood_strength`.
    """

    markers: tuple[str, ...] = Field(
        ("#", "~"), min_length=2, description="One token per label, in class order; attacks leave punctuation alone"
    )
    strength: float = Field(
        0.9, ge=0.0, le=1.0, description="Share of the rows of each label that carry its own marker; others another's"
    )
    ood_strength: float = Field(0.1, ge=0.0, le=1.0, description="The same share in the OOD twin")
    rows: TwinRows = Field(default_factory=TwinRows)
    train_rows: int = Field(0, ge=0, description="Rows of the reversed kind that a method may train on as upper bound")

    @field_validator("markers")
    @classmethod
    def _check_markers(cls, markers: tuple[str, ...]) -> tuple[str, ...]:
        if any(not marker or marker.split() != [marker] for marker in markers):
            raise ValueError("a marker is one word or sign without white space")
        if len({marker.casefold() for marker in markers}) < len(markers):
            raise ValueError("two labels have the same marker")
        return markers
