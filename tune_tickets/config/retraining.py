"""`retraining:` how a drawn ticket is trained on its own."""

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from tune_tickets.config.adversary import Adversary
from tune_tickets.config.debiasing import Debiasing
from tune_tickets.config.regulariser import Regulariser
from tune_tickets.config.section import LearningRate, Ratio, Section


class Retraining(Section):
    """Fine-tuning from the pre-trained weights. Defaults: EarlyRobust section 4.4."""

    learning_rate: LearningRate = Field(2e-5, description="AdamW learning rate")
    epochs: int = Field(10, ge=1, le=1000, description="Epochs")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")
    adversary: Adversary = Field(
        default_factory=lambda: Adversary(kind="none"), description="Adversarial retraining; none as in the paper"
    )
    regulariser: Regulariser = Field(
        default_factory=lambda: Regulariser(kind="none"), description="Terms added to the loss; none as in the paper"
    )
    debiasing: Debiasing = Field(
        default_factory=Debiasing, description="Loss that leans less on dataset bias; ce as in the paper"
    )

    @model_serializer(mode="wrap")
    def _leave_out_plain_cross_entropy(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Stages stored before there was a choice of losses stay valid.
        written: dict[str, Any] = serialise(self)
        return written if self.debiasing.experts else {k: v for k, v in written.items() if k != "debiasing"}
