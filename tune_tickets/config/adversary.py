"""`adversary:` the perturbation of word embeddings in adversarial training (EarlyRobust eq. 6 and appendix A.1)."""

from typing import Any, Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import Section


class Adversary(Section):
    """How the inner maximisation is solved. Defaults: EarlyRobust Table 6, SST-2."""

    kind: Literal["freelb", "pgd", "none"] = Field(
        "freelb", description="freelb: gradients accumulate over the steps; pgd: one backward on the worst case; none"
    )
    steps: int = Field(5, ge=1, le=100, description="K, passes (freelb) or ascent steps (pgd)")
    step_size: float = Field(0.02, gt=0.0, le=10.0, description="Length of one ascent step")
    initial_magnitude: float = Field(0.05, ge=0.0, le=10.0, description="ε₀, size of the random start; 0 starts at 0")
    norm: Literal["l2", "linf"] = Field("l2", description="Norm of step and ball")
    max_norm: float = Field(0.0, ge=0.0, le=100.0, description="ε, radius of the ball; 0 leaves it unbounded")
    fixed_dropout: bool = Field(
        False,
        description="Keep one dropout mask over the K passes (FreeLB's paper does, the ticket papers' code does not)",
    )

    @property
    def passes(self) -> int:
        """Forward and backward passes of one training step; PGD's last one trains at the delta reached."""
        return {"none": 1, "freelb": self.steps, "pgd": self.steps + 1}[self.kind]

    @model_validator(mode="before")
    @classmethod
    def _none_has_no_settings(cls, data: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        # Without an adversary its other settings mean nothing; dropping them lets such trials share stages.
        if isinstance(data, dict) and data.get("kind") == "none":
            return {"kind": "none"}
        return data
