"""`search.budget:` what a search may spend; it stops in good order when one limit is reached."""

from pydantic import Field, model_validator

from tune_tickets.config.section import Section


class Budget(Section):
    """Limits beside `search.trials`. A stopped search goes on with a larger budget: it is the same experiment.

    Hours of GPUs and CPUs are those that finished stages held, of all sessions of the experiment together.
    """

    gpu_hours: float | None = Field(None, gt=0.0, description="GPU-hours of stages; null: no limit")
    cpu_hours: float | None = Field(None, gt=0.0, description="CPU-hours of stages; null: no limit")
    wall_clock_hours: float | None = Field(None, gt=0.0, description="Hours that the driver runs; null: no limit")
    money: float | None = Field(None, gt=0.0, description="Nodes alive x hours x price_per_node_hour; null: no limit")
    price_per_node_hour: float | None = Field(None, gt=0.0, description="What a node costs an hour, in your currency")

    @model_validator(mode="after")
    def _check_price(self) -> "Budget":
        if self.money is not None and self.price_per_node_hour is None:
            raise ValueError("a limit on money needs price_per_node_hour")
        return self

    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        return self.model_dump(include={"gpu_hours", "cpu_hours", "wall_clock_hours", "money"}, exclude_none=True)
