"""Stage `epochs`: a retraining once more, step for step, that keeps the ticket after each of its epochs."""

from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.trial.bodies.retrain import trained


def run(context: StageContext) -> StageOutput:
    """The inputs are those of the stage `retrain`, so that the last epoch leaves what that has left."""
    return trained(context, every_epoch=True)
