"""EarlyRobust: structured early-bird tickets from adversarial training (Xi et al., 2022). Its code: `finding`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from tune_tickets.config.section import LearningRate
from tune_tickets.config.training import Adversary, Drawing, Optimisation
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.stage import ExtensibleStage, StageKey, Work
from tune_tickets.methods.base import Flow, Method
from tune_tickets.methods.stages import Draw, Sizes, TrainingStage, training_work


class EarlyBird(Method, Optimisation):
    """A search by coefficients with an early stop. Defaults: EarlyRobust section 4.4 and Table 6, SST-2."""

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
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay (not on coefficients)")

    @property
    def ratios(self) -> Drawing:
        """Tickets can be drawn again at other shares."""
        return self.drawing

    def changes(self) -> Iterator[str]:
        """Without both penalties."""
        if self.penalty_heads == self.penalty_neurons == 0:
            yield "no penalty"

    def search_inputs(self) -> dict[str, Any]:
        """What the trajectory of scores depends on: everything except ratios, scopes and the stop rule."""
        return self.model_dump(mode="json", exclude={"drawing", "gamma", "patience"})

    def stop_rule(self) -> dict[str, Any]:
        """What decides where a trajectory stops."""
        return self.model_dump(mode="json", include={"drawing", "gamma", "patience"})

    def find(self, flow: Flow) -> ExtensibleStage:
        """The search on the labelled rows of the task."""
        return self.search_on_rows(flow, flow.settings.task.max_length, flow.world.data)

    def search_on_rows(self, flow: Flow, max_length: int, data: StageKey) -> "Search":
        """The search on the labelled rows of a task."""
        inputs = {**flow.model_inputs(), "max_length": max_length}
        table = flow.substitutes(self.adversary, data)
        return Search(**inputs, method=self.search_inputs(), data=data, substitutes=table, to=self.stop_rule())

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> StageKey:
        """Find the scores once, then draw at the given ratios."""
        if flow.scores is None:
            flow.scores = flow.run(self.find(flow), flow.on_record)
        ratios, stop = (drawing or self.drawing).model_dump(), flow.scores.record["stop"]
        drawn = Draw(kind="scores", stop=stop, drawing=ratios, search=flow.scores.key)
        return flow.run(drawn, flow.on_record).key


class EarlyRobust(EarlyBird):
    """Structured early-bird tickets from adversarial training. Defaults: EarlyRobust section 4.4 and Table 6, SST-2."""

    kind: Literal["earlyrobust"] = "earlyrobust"

    @property
    def label(self) -> str:
        """EarlyRobust without an adversary is EarlyBERT."""
        return "EarlyBERT" if self.adversary.kind == "none" else self.kind


@dataclass(frozen=True, kw_only=True)
class Search(TrainingStage, ExtensibleStage):
    """The trajectory of coefficients on the labelled rows of a task, as long as the goal needs it."""

    name: ClassVar[str] = "search"
    version: ClassVar[int] = 2
    curve: ClassVar[tuple[str, str] | None] = ("search of coefficients", "mini-epoch")
    seed: int
    model: dict[str, Any]
    model_fingerprint: str
    max_length: int
    method: dict[str, Any]
    data: StageKey
    substitutes: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Extend the trajectory and find where it stops."""
        from tune_tickets.methods.earlyrobust.finding import extend, on_rows

        return extend(context, on_rows(context))

    def work(self, sizes: Sizes) -> Work:
        """At most the full schedule."""
        method = self.method
        adversary = Adversary.model_validate(method["adversary"])
        return training_work(method["epochs"], method["batch_size"], adversary, sizes, at_most=True)

    def foreseen(self) -> dict[str, Any]:
        """Where the search stops is not known before it has run."""
        return {"stop": 1, "converged": True}
