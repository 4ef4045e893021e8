"""`ablation:` what is taken from a ticket before it is trained, whichever method found it."""

from typing import Any, Literal

from pydantic import Field

from tune_tickets.config.section import Section


class Ablation(Section):
    """What a ticket owes to its mask, weights and structure (RobustT and EarlyRobust Table 4, ORTicket Table 6)."""

    mask: Literal["found", "shuffled"] = Field(
        "found", description="shuffled: every layer loses as much as in the ticket, but at random places"
    )
    weights: Literal["pretrained", "reinitialised"] = Field(
        "pretrained", description="reinitialised: the ticket keeps its structure and starts from random weights"
    )
    structure: Literal["kept", "discarded"] = Field(
        "kept", description="discarded: the whole model, with random weights where the ticket has none"
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of shuffled places and random weights")

    def start_inputs(self) -> dict[str, Any]:
        """What the start of a retraining depends on: nothing without an ablation, so that such trials share stages."""
        if (self.weights, self.structure) == ("pretrained", "kept"):
            return {}
        return {"ablation": self.model_dump(mode="json", exclude={"mask"})}
