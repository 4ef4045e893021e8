"""`method:` the sections of RobustT and of IMP, each with what its search depends on."""

from typing import Any, Literal

from pydantic import Field

from tune_tickets.config.adversary import Adversary
from tune_tickets.config.section import LearningRate, Ratio, Section


class RobustT(Section):
    """Robust tickets by hard-concrete masks over a fine-tuned model. Defaults: RobustT Table 7, SST-2."""

    kind: Literal["robustt"] = "robustt"
    adversary: Adversary = Field(
        default_factory=lambda: Adversary(steps=3, step_size=0.03, initial_magnitude=0.05),
        description="Adversary of the mask training; kind none is the ablation",
    )
    sparsity: Ratio = Field(0.3, description="Share of the masked weights removed; one search serves them all")
    grouping: Literal["weight", "structured"] = Field(
        "weight", description="A mask per weight, or per attention head and intermediate neuron"
    )
    penalty: float = Field(0.1, ge=0.0, le=100.0, description="λ, weight of R(m); 0 is the ablation")
    penalty_mean: Literal["global", "tensor"] = Field(
        "global", description="R(m) as a mean over all entries (eq. 4), or of the matrices' means (the paper's code)"
    )
    penalty_start: Ratio = Field(0.1, description="Share of the training before λ leaves 0")
    penalty_ramp: Ratio = Field(0.3, description="Share of the training over which λ grows to its full value")
    expected_gate: float = Field(0.9, gt=0.0, lt=1.0, description="Value of every gate at the start")
    temperature: float = Field(2 / 3, gt=0.0, le=10.0, description="β_i of eq. 2, how far gates are from binary")
    noise: Literal["pass", "step"] = Field(
        "pass", description="Gates are sampled anew at every adversarial pass, or kept over the passes of a step"
    )
    learning_rate: LearningRate = Field(0.05, description="AdamW learning rate of the masks; nothing else trains")
    epochs: float = Field(20.0, gt=0.0, le=1000.0, description="Length of the mask training")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(1e-6, ge=0.0, le=1.0, description="AdamW weight decay of the masks")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Norm of the masks' gradient is clipped to this")

    def search_inputs(self) -> dict[str, Any]:
        """What the mask training depends on: everything but the sparsity drawn from it."""
        return self.model_dump(mode="json", exclude={"sparsity"})


class Imp(Section):
    """LTH tickets by iterative magnitude pruning with rewinding: RobustT's baseline, SRNets' imp-rw."""

    kind: Literal["imp"] = "imp"
    adversary: Adversary = Field(
        default_factory=lambda: Adversary(kind="none"), description="Adversary of the training in every round"
    )
    sparsity: Ratio = Field(0.3, description="Share of the masked weights removed in the end")
    rounds: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Rounds that cut the same share of what is left; null cuts 10% of the original weights a round",
    )
    ranking: Literal["global", "matrix"] = Field(
        "global", description="Weights compete over the whole model, or within each matrix (SRNets)"
    )
    learning_rate: LearningRate = Field(2e-5, description="AdamW learning rate")
    epochs: float = Field(3.0, gt=0.0, le=1000.0, description="Epochs of training in every round")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")
