"""`objective:` what makes one ticket better than another."""

from typing import Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import Section


class Objective(Section):
    """Clean accuracy and accuracy under attack in one figure, with a floor that keeps degenerate winners out."""

    kind: Literal["weighted", "harmonic", "pareto"] = Field(
        "weighted", description="Weighted mean, harmonic mean, or the vector (clean, accuracy under attack)"
    )
    clean_weight: float = Field(0.5, ge=0.0, le=1.0, description="Weight of clean accuracy in the weighted mean")
    attack_weight: float = Field(0.5, ge=0.0, le=1.0, description="Weight of mean accuracy under attack")
    floor_points: float | None = Field(
        2.0, ge=0.0, le=100.0, description="Points of clean accuracy a ticket may lose to the dense control; null: any"
    )
    floor_clean: float | None = Field(
        None, ge=0.0, le=100.0, description="Clean accuracy in % that a ticket must reach, whatever the control does"
    )
    near_constant: float = Field(
        0.95, gt=0.0, le=1.0, description="A predictor giving one label to at least this share of rows is flagged"
    )

    @model_validator(mode="after")
    def _check_weights(self) -> "Objective":
        if self.kind == "weighted" and self.clean_weight + self.attack_weight <= 0:
            raise ValueError("clean_weight and attack_weight are both 0: nothing would be compared")
        return self
