"""The random control: parts removed at random, as many as `drawing` says or as another ticket lacks."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from tune_tickets.config.training import Drawing
from tune_tickets.engine.stage import StageKey
from tune_tickets.methods.base import Flow, Method
from tune_tickets.methods.stages import Draw


class RandomTicket(Method):
    """The control: parts removed at random, as many as `drawing` says or as another ticket lacks."""

    at_random: ClassVar[bool] = True

    kind: Literal["random"] = "random"
    drawing: Drawing = Field(default_factory=Drawing)
    like: str | None = Field(
        None,
        min_length=1,
        description="Ticket file whose counts in every layer (single weights: in every matrix) replace `drawing`",
    )
    ticket_seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of the random choice")

    @model_validator(mode="before")
    @classmethod
    def _like_leaves_nothing_to_draw(cls, data: Any) -> Any:  # noqa: ANN401 - any YAML value
        if isinstance(data, dict) and data.get("like") is not None:
            return {key: value for key, value in data.items() if key != "drawing"}
        return data

    @property
    def ratios(self) -> Drawing:
        """Tickets can be drawn again at other shares."""
        return self.drawing

    @property
    def ticket_file(self) -> str | None:
        """The ticket whose counts are used."""
        return self.like

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> StageKey:
        """Draw at random."""
        if self.like is not None:
            return flow.run(
                Draw(kind="shuffled", ticket_seed=self.ticket_seed, like=flow.world.tickets[self.like]), flow.on_record
            ).key
        ratios = (drawing or self.drawing).model_dump()
        drawn = Draw(kind="random", anatomy=flow.world.anatomy, ticket_seed=self.ticket_seed, drawing=ratios)
        return flow.run(drawn, flow.on_record).key
