"""Stage `ood`: a trained ticket on the select rows of an out-of-distribution twin of its task."""

from tune_tickets.data.example import rows_digest
from tune_tickets.evaluation.clean import predict
from tune_tickets.evaluation.ood import choices, counted_as, ood_figures
from tune_tickets.trial.backbone import encode_rows
from tune_tickets.trial.bodies.evaluate import load_trained
from tune_tickets.trial.execution import StageContext, StageOutput
from tune_tickets.trial.twins import load_twin_rows


def run(context: StageContext) -> StageOutput:
    """Predict every row once, count the answers as the twin's labels, measure all rows and each group."""
    ticket, twin = load_trained(context), load_twin_rows(context)
    encoded = encode_rows(ticket.tokenizer, twin.rows, ticket.metadata.max_length)
    among = choices(twin.answers, twin.restrict)
    predicted = predict(ticket.model, encoded, context.inputs["eval_batch_size"], among)
    figures = ood_figures(
        name=twin.name,
        metric=twin.metric,
        counted=counted_as(predicted, twin.answers),
        labels=encoded.labels,
        groups=[row.group for row in twin.rows],
        sample=rows_digest((row.texts, row.label) for row in twin.rows),
    )
    return StageOutput({"ood": figures.model_dump(mode="json")})
