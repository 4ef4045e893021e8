"""`regulariser:` terms that retraining adds to its loss: InfoBERT's two bounds on mutual information."""

from typing import Any, Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import Ratio, Section


class Regulariser(Section):
    """InfoBERT (Wang et al., 2021). Defaults: what its authors run (α, β, c_l, c_h and the critic)."""

    kind: Literal["infobert", "none"] = Field("infobert", description="infobert: both terms of InfoBERT; none")
    alpha: float = Field(5e-3, ge=0.0, le=100.0, description="α, weight of the anchored features; 0 leaves them out")
    beta: float = Field(5e-3, ge=0.0, le=100.0, description="β, weight of the information bottleneck; 0 leaves it out")
    low: Ratio = Field(0.5, description="c_l, words ranked below this share by gradient are too useless to anchor")
    high: float = Field(0.9, gt=0.0, le=1.0, description="c_h, words ranked above this share are too fragile to anchor")
    critic_width: int = Field(300, ge=1, le=4096, description="Hidden width of the critic that compares two features")

    @model_validator(mode="before")
    @classmethod
    def _none_has_no_settings(cls, data: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        # As for the adversary: settings that mean nothing must not keep trials from sharing stages.
        if isinstance(data, dict) and data.get("kind") == "none":
            return {"kind": "none"}
        return data

    @model_validator(mode="after")
    def _check_band(self) -> "Regulariser":
        if self.low >= self.high:
            raise ValueError(f"no word lies between low ({self.low:g}) and high ({self.high:g}): low must be less")
        return self
