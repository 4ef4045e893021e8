"""Stage `ood`: a trained ticket on the select rows of an out-of-distribution twin of its task."""

from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.trial.bodies.evaluate import load_trained
from tune_tickets.trial.twin_figures import TwinFigures


def run(context: StageContext) -> StageOutput:
    """Measure the ticket as users load it."""
    ticket = load_trained(context)
    figures = TwinFigures(context, ticket.tokenizer, ticket.metadata.max_length).of(ticket.model)
    return StageOutput({"ood": figures.model_dump(mode="json")})
