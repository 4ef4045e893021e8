"""The dense baseline: nothing is removed."""

from typing import ClassVar, Literal

from tune_tickets.config.training import Drawing
from tune_tickets.methods.base import Flow, Method


class FineTune(Method):
    """The dense baseline: nothing is removed."""

    finds_ticket: ClassVar[bool] = False

    kind: Literal["finetune"] = "finetune"

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> None:
        """There is no mask."""
        return
