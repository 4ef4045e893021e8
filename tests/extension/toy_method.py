"""A method that lives outside the package, in one file: its schema, its stage, its science."""

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from tune_tickets.config.section import Ratio
from tune_tickets.config.training import Drawing
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.stage import Stage, StageKey, Work
from tune_tickets.methods.base import Flow, Method
from tune_tickets.methods.stages import Draw, Sizes


class ToyMethod(Method):
    """Roll dice for a seed, then cut parts by that seed."""

    share: Ratio = Field(0.25, description="Share of heads and neurons to cut")
    sides: int = Field(6, ge=2, description="Sides of the dice")

    @property
    def label(self) -> str:
        """What tables call its tickets."""
        return "toy dice"

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> StageKey:
        """Roll the dice, then draw."""
        rolled = flow.run(ToyRoll(sides=self.sides, seed=flow.settings.seed, data=flow.world.data), flow.on_record)
        ratios = Drawing(heads=self.share, neurons=self.share).model_dump()
        seed = rolled.record["rolled"]
        return flow.run(
            Draw(kind="random", anatomy=flow.world.anatomy, ticket_seed=seed, drawing=ratios), flow.on_record
        ).key


@dataclass(frozen=True, kw_only=True)
class ToyRoll(Stage):
    """Dice that fall the same way for the same sides, seed and rows."""

    name: ClassVar[str] = "toy_roll"
    version: ClassVar[int] = 3
    curve: ClassVar[tuple[str, str] | None] = ("rolling dice", "roll")
    sides: int
    seed: int
    data: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Roll, and read the rows to see that stages of other packages get at them."""
        rows = context.upstream("data").record["train"]
        rolled = int(hashlib.sha256(f"{self.sides} {self.seed} {rows}".encode()).hexdigest(), 16) % self.sides
        for step in range(3):
            context.report({"step": step, "loss": 1.0 / (step + 1)})
        return StageOutput({"rolled": rolled, "rows": rows})

    def work(self, sizes: Sizes) -> Work:
        """One roll."""
        return Work(f"a die of {self.sides} sides")

    def foreseen(self) -> dict[str, Any]:
        """How the dice fall is not known before."""
        return {"rolled": 0}
