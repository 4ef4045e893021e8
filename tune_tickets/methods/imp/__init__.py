"""IMP: lottery tickets by iterative magnitude pruning with rewinding (Chen et al., 2020). Its code: `rounds`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from tune_tickets.config.section import LearningRate, Ratio
from tune_tickets.config.training import ADVERSARIES, Adversary, Drawing, Optimisation
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.runner import later
from tune_tickets.engine.stage import StageKey, Work
from tune_tickets.methods.base import Flow, Method
from tune_tickets.methods.stages import WEIGHTS_FILE, Draw, ModelStage, Sizes, training_work


class Imp(Method, Optimisation):
    """Lottery tickets by iterative magnitude pruning (Chen et al., 2020). Defaults: RobustT Table 5, 10% a round."""

    kind: Literal["imp"] = "imp"
    sparsity: Ratio = Field(0.3, description="Share of the masked weights removed; sparsities share their rounds")
    step: float = Field(0.1, gt=0.0, le=1.0, description="Share of the masked weights that a round removes")
    ranking: Literal["global", "matrix"] = Field(
        "global", description="Magnitudes compete over the whole model, or within each matrix"
    )
    rewinding: Literal["weights", "learning_rate"] = Field(
        "weights",
        description="A round starts from the pre-trained weights, or from the trained ones with a new schedule",
    )
    adversary: Adversary = Field(
        default_factory=lambda: Adversary(kind="none"),
        description="Adversary of every round; freelb is RobustT's ablation without mask training (Table 3)",
    )
    learning_rate: LearningRate = Field(2e-5, description="AdamW learning rate of every round")
    epochs: float = Field(3.0, gt=0.0, le=1000.0, description="Length of a round")

    def schedule(self) -> tuple[float, ...]:
        """The sparsity after every round: the multiples of `step` below `sparsity`, then `sparsity` itself."""
        # Rounded: 3 x 0.1 is 0.30000000000000004 and would not share stages with 0.3.
        rounds = math.ceil(round(self.sparsity / self.step, 6))
        return (*(round(number * self.step, 12) for number in range(1, rounds)), self.sparsity)

    def search_inputs(self) -> dict[str, Any]:
        """What the training of a round depends on, in addition to the mask of earlier rounds."""
        return self.model_dump(mode="json", exclude={"sparsity", "step", "ranking"})

    def changes(self) -> Iterator[str]:
        """Adversarial rounds."""
        if self.adversary.kind != "none":
            yield f"{ADVERSARIES[self.adversary.kind]} rounds"

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> StageKey:
        """Train, cut the smallest remaining weights, rewind, repeat. All sparsities share their first rounds."""
        within: StageKey | None = None
        before: StageKey | None = None
        epochs = 0
        table = flow.substitutes(self.adversary)
        for sparsity in self.schedule():
            training = Round(
                **flow.model_inputs(),
                method=self.search_inputs(),
                data=flow.world.data,
                substitutes=table,
                within=within,
                before=before,
            )
            trained = flow.run(training, later(flow.on_record, epochs))
            cut = Draw(kind="ranking", sparsity=sparsity, ranking=self.ranking, search=trained.key, within=within)
            within, epochs = flow.run(cut, flow.on_record).key, epochs + len(trained.history)
            if self.rewinding == "learning_rate":
                before = trained.key
        assert within is not None, "there is at least one round"
        return within


@dataclass(frozen=True, kw_only=True)
class Round(ModelStage):
    """One round of iterative magnitude pruning, from the pre-trained weights."""

    name: ClassVar[str] = "imp"
    cleanable: ClassVar[str | None] = WEIGHTS_FILE
    curve: ClassVar[tuple[str, str] | None] = ("IMP, each round", "epoch")
    rounds: ClassVar[bool] = True
    method: dict[str, Any]
    data: StageKey
    substitutes: StageKey | None = None
    within: StageKey | None = None
    before: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Train what earlier rounds have left and keep the magnitudes."""
        from tune_tickets.methods.imp.rounds import run_round

        return run_round(context)

    def work(self, sizes: Sizes) -> Work:
        """The training of a round."""
        adversary = Adversary.model_validate(self.method["adversary"])
        return training_work(self.method["epochs"], self.method["batch_size"], adversary, sizes, at_most=True)
