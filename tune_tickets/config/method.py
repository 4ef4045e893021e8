"""`method:` how tickets are found; one schema per method, told apart by `kind`."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tune_tickets.config.early_bird import Drawing as Drawing
from tune_tickets.config.early_bird import EarlyBird as EarlyBird
from tune_tickets.config.orticket import ORTicket as ORTicket
from tune_tickets.config.section import LearningRate, Ratio, Section, with_defaults
from tune_tickets.config.srnets import SRNets
from tune_tickets.config.training import Adversary, Retraining

_MASK_ADVERSARY: dict[str, Any] = {"steps": 3, "step_size": 0.03, "initial_magnitude": 0.05}  # RobustT Table 7, SST-2
_FINETUNING: dict[str, Any] = {"epochs": 3}  # RobustT Table 5; the rest is as in every retraining


class EarlyRobust(EarlyBird):
    """Structured early-bird tickets from adversarial training. Defaults: EarlyRobust section 4.4 and Table 6, SST-2."""

    kind: Literal["earlyrobust"] = "earlyrobust"


class RobustT(Section):
    """Robust tickets by hard-concrete masks over a fine-tuned model. Defaults: RobustT Table 7, SST-2."""

    kind: Literal["robustt"] = "robustt"
    adversary: Annotated[Adversary, with_defaults(_MASK_ADVERSARY)] = Field(
        default_factory=lambda: Adversary(**_MASK_ADVERSARY),
        description="Adversary of the mask training; kind none is the ablation. Unless written, 3 steps of 0.03",
    )
    finetuning: Annotated[Retraining, with_defaults(_FINETUNING)] = Field(
        default_factory=lambda: Retraining(**_FINETUNING),
        description="The dense fine-tuning whose weights are masked; unless written, 3 epochs",
    )
    sparsity: Ratio = Field(0.3, description="Share of the masked weights removed; one search serves them all")
    scores: Literal["masks", "magnitude"] = Field(
        "masks", description="Tickets are drawn by learnt masks; magnitude of the fine-tuned weights is the ablation"
    )
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
        """What the scores depend on: everything but the sparsity drawn from them. Magnitudes need no training."""
        if self.scores == "magnitude":
            return self.model_dump(mode="json", include={"scores", "grouping"})
        return self.model_dump(mode="json", exclude={"sparsity"})


class Imp(Section):
    """Lottery tickets by iterative magnitude pruning (Chen et al., 2020). Defaults: RobustT Table 5, 10% a round."""

    kind: Literal["imp"] = "imp"
    sparsity: Ratio = Field(0.3, description="Share of the masked weights removed; sparsities share their rounds")
    step: float = Field(0.1, gt=0.0, le=1.0, description="Share of the masked weights that a round removes")
    ranking: Literal["global", "matrix"] = Field(
        "global", description="Magnitudes compete over the whole model, or within each matrix"
    )
    rewinding: Literal["weights", "learning_rate"] = Field(
        "weights",
        description="A round starts from the pre-trained weights, or goes on from the trained ones with a new schedule",
    )
    adversary: Adversary = Field(
        default_factory=lambda: Adversary(kind="none"),
        description="Adversary of every round; freelb is RobustT's ablation without mask training (Table 3)",
    )
    learning_rate: LearningRate = Field(2e-5, description="AdamW learning rate of every round")
    epochs: float = Field(3.0, gt=0.0, le=1000.0, description="Length of a round")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")
    warmup: Ratio = Field(0.1, description="Share of a round's schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")

    def schedule(self) -> tuple[float, ...]:
        """The sparsity after every round: the multiples of `step` below `sparsity`, then `sparsity` itself."""
        # Rounded: 3 x 0.1 is 0.30000000000000004, and would share no stage with 0.3.
        rounds = math.ceil(round(self.sparsity / self.step, 6))
        return (*(round(number * self.step, 12) for number in range(1, rounds)), self.sparsity)

    def search_inputs(self) -> dict[str, Any]:
        """What the training of a round depends on, beside the mask that the rounds before have left."""
        return self.model_dump(mode="json", exclude={"sparsity", "step", "ranking"})


class RandomTicket(Section):
    """The control: parts removed at random, as many as `drawing` asks for or as another ticket lacks."""

    kind: Literal["random"] = "random"
    drawing: Drawing = Field(default_factory=Drawing)
    like: str | None = Field(
        None,
        min_length=1,
        description="Ticket file whose counts in every layer (single weights: in every matrix) stand in for `drawing`",
    )
    ticket_seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of the random choice")

    @model_validator(mode="before")
    @classmethod
    def _like_leaves_nothing_to_draw(cls, data: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        if isinstance(data, dict) and data.get("like") is not None:
            return {key: value for key, value in data.items() if key != "drawing"}
        return data


class FineTune(Section):
    """The dense baseline: nothing is removed."""

    kind: Literal["finetune"] = "finetune"


Method = Annotated[
    EarlyRobust | ORTicket | RobustT | Imp | SRNets | RandomTicket | FineTune, Field(discriminator="kind")
]
