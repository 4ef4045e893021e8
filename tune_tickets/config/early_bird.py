"""What searches by importance coefficients share: EarlyRobust on labelled rows, ORTicket on masked text."""

from typing import Any, Literal

from pydantic import Field

from tune_tickets.config.section import LearningRate, Ratio, Section
from tune_tickets.config.training import Adversary

Scope = Literal["global", "layer"]


class Drawing(Section):
    """Which share of heads and neurons is cut, and where scores compete. Defaults: EarlyRobust on SST-2."""

    heads: Ratio = Field(1 / 6, description="Share of attention heads removed; every layer keeps at least one")
    neurons: Ratio = Field(0.3, description="Share of intermediate neurons removed")
    heads_scope: Scope = Field("global", description="Heads compete over the whole model, or within each layer")
    neurons_scope: Scope = Field("global", description="Neurons compete over the whole model, or within each layer")


class EarlyBird(Section):
    """A search by coefficients and its early stop. Defaults: EarlyRobust section 4.4 and Table 6, SST-2."""

    adversary: Adversary = Field(default_factory=Adversary)
    drawing: Drawing = Field(default_factory=Drawing)
    penalty_heads: float = Field(1e-4, ge=0.0, le=10.0, description="λ_H, weight of the L1 norm of head coefficients")
    penalty_neurons: float = Field(3e-4, ge=0.0, le=10.0, description="λ_F, the same for neuron coefficients")
    learning_rate: LearningRate = Field(2e-5, description="Learning rate of the weights during the search")
    coefficient_learning_rate: LearningRate | None = Field(
        None, description="Learning rate of the coefficients; null takes learning_rate, as the paper does"
    )
    epochs: float = Field(1.0, gt=0.0, le=100.0, description="Length of the search and of its learning-rate schedule")
    mini_epoch: float = Field(0.05, gt=0.0, le=1.0, description="Share of an epoch between two mask comparisons")
    gamma: float = Field(0.1, ge=0.0, le=1.0, description="γ, mask distance below which a mini-epoch counts as stable")
    patience: int = Field(5, ge=1, le=1000, description="Stable mini-epochs in a row that end the search")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay (not on coefficients)")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")

    def search_inputs(self) -> dict[str, Any]:
        """What the search trajectory depends on: everything but the ratios, scopes and rule by which it is read."""
        return self.model_dump(mode="json", exclude={"drawing", "gamma", "patience"})

    def stop_rule(self) -> dict[str, Any]:
        """What decides where a trajectory is left, given the trajectory."""
        return self.model_dump(mode="json", include={"drawing", "gamma", "patience"})
