"""RobustT: robust tickets by hard-concrete masks over a fine-tuned model (Zheng et al., 2022). Its code: `masks`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tune_tickets.config.section import LearningRate, Ratio, with_defaults
from tune_tickets.config.training import Adversary, Drawing, Optimisation, Retraining
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.runner import unheard
from tune_tickets.engine.stage import StageKey, Work
from tune_tickets.methods.base import Flow, Method
from tune_tickets.methods.stages import Draw, ModelStage, Sizes, training_work

_MASK_ADVERSARY: dict[str, Any] = {"steps": 3, "step_size": 0.03, "initial_magnitude": 0.05}  # RobustT Table 7, SST-2
_FINETUNING: dict[str, Any] = {"epochs": 3}  # RobustT Table 5; all other settings as in every retraining


class RobustT(Method, Optimisation):
    """Robust tickets by hard-concrete masks over a fine-tuned model. Defaults: RobustT Table 7, SST-2."""

    kind: Literal["robustt"] = "robustt"
    adversary: Annotated[Adversary, with_defaults(_MASK_ADVERSARY, unless="freelb++")] = Field(
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
        "pass", description="Gates are sampled at every adversarial pass, or once per step"
    )
    learning_rate: LearningRate = Field(0.05, description="AdamW learning rate of the masks; nothing else trains")
    epochs: float = Field(20.0, gt=0.0, le=1000.0, description="Length of the mask training")
    weight_decay: float = Field(1e-6, ge=0.0, le=1.0, description="AdamW weight decay of the masks")

    def search_inputs(self) -> dict[str, Any]:
        """What the scores depend on: everything except the sparsity. Magnitudes need no training."""
        if self.scores == "magnitude":
            return self.model_dump(mode="json", include={"scores", "grouping"})
        return self.model_dump(mode="json", exclude={"sparsity"})

    def changes(self) -> Iterator[str]:
        """By magnitude, without the adversary, without R(m), structured."""
        if self.scores == "magnitude":
            yield "magnitude"
        else:
            yield from ["no adversary"] * (self.adversary.kind == "none") + ["no penalty"] * (self.penalty == 0)
        if self.grouping == "structured":
            yield "structured"

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> StageKey:
        """Fine-tune, train masks on the frozen weights, draw. One mask training serves every sparsity."""
        finetuned = flow.run(flow.retrain(None, self.finetuning), unheard)
        inputs = {**flow.model_inputs(), "method": self.search_inputs(), "data": flow.world.data}
        table = flow.substitutes(self.adversary) if self.scores == "masks" else None
        found = Masks(**inputs, retrain=finetuned.key, substitutes=table)
        masks = flow.run(found, flow.on_record).key
        drawn = Draw(kind="ranking", sparsity=self.sparsity, ranking="global", search=masks)
        if self.grouping == "structured":
            ratios = Drawing(heads=self.sparsity, neurons=self.sparsity)
            drawn = Draw(kind="scores", stop=1, drawing=ratios.model_dump(), search=masks)
        return flow.run(drawn, flow.on_record).key


@dataclass(frozen=True, kw_only=True)
class Masks(ModelStage):
    """The mask training on the frozen weights of a fine-tuned model."""

    name: ClassVar[str] = "masks"
    version: ClassVar[int] = 2
    curve: ClassVar[tuple[str, str] | None] = ("mask training (RobustT)", "epoch")
    method: dict[str, Any]
    data: StageKey
    retrain: StageKey
    substitutes: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Train the masks and keep their scores."""
        from tune_tickets.methods.robustt.masks import find_scores

        return find_scores(context)

    def work(self, sizes: Sizes) -> Work:
        """The mask training; magnitudes need none."""
        method = self.method
        if method["scores"] == "magnitude":
            return Work("magnitudes")
        adversary = Adversary.model_validate(method["adversary"])
        return training_work(method["epochs"], method["batch_size"], adversary, sizes, at_most=True)
