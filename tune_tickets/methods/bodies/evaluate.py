"""Stages `evaluate` and `ood`: a trained ticket on the select rows of its task and of its OOD twins."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.data.rows import rows_digest
from tune_tickets.data.task import attack_sample
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.start import device_of, encode_rows
from tune_tickets.methods.given import load_rows, load_twin_rows
from tune_tickets.methods.stages import TICKET_FILE, epoch_file
from tune_tickets.models.loading import LoadedTicket, open_ticket
from tune_tickets.models.surgery import relative_flops
from tune_tickets.results.records import OodFigures
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.training.evaluation import clean_figures, predict
from tune_tickets.training.ood import choices, counted_as, ood_figures


class TwinFigures:
    """The twin of a stage as tokens, to measure any number of models."""

    def __init__(self, context: StageContext, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self.twin = load_twin_rows(context)
        self._batch_size = context.inputs["eval_batch_size"]
        self._encoded = encode_rows(tokenizer, self.twin.rows, max_length)

    def of(self, model: PreTrainedModel) -> OodFigures:
        """Predict every row once, map the answers to the labels of the twin, measure all rows and each group."""
        twin = self.twin
        among = choices(twin.answers, twin.restrict)
        predicted = predict(model, self._encoded, self._batch_size, among)
        return ood_figures(
            name=twin.name,
            metric=twin.metric,
            counted=counted_as(predicted, twin.answers),
            labels=self._encoded.labels,
            groups=[row.group for row in twin.rows],
            sample=rows_digest((row.texts, row.label) for row in twin.rows),
        )


def evaluate(context: StageContext) -> StageOutput:
    """Predict every select row once. Only rows of the attacked sample that are right can be attacked."""
    ticket = load_trained(context)
    rows = load_rows(context).select
    encoded = encode_rows(ticket.tokenizer, rows, ticket.metadata.max_length)
    predicted = predict(ticket.model, encoded, context.inputs["eval_batch_size"])
    figures = clean_figures(predicted, encoded.labels)
    figures = figures.model_copy(update={"sample": rows_digest((row.texts, row.label) for row in rows)})
    sample = attack_sample(rows, context.inputs["rows"], context.inputs["seed"])
    return StageOutput(
        {
            "clean": figures.model_dump(mode="json"),
            "flops": relative_flops(ticket.model, ticket.metadata.max_length),
            "attackable": [int(predicted[index]) == row.label for index, row in sample],
            "attacked_sample": rows_digest((row.texts, row.label) for _, row in sample),
        }
    )


def load_trained(context: StageContext) -> LoadedTicket:
    """The trained ticket of the upstream stage, or the one after an epoch, in the pruned form that users load."""
    file = epoch_file(context.inputs["epoch"]) if "epoch" in context.inputs else TICKET_FILE
    content = context.store.read(context.upstream("retrain"), file)
    ticket = open_ticket(Ticket.from_bytes(content, where=file), file)
    ticket.model.to(device_of(context.resources))  # type: ignore[arg-type]
    return ticket


def measure_twin(context: StageContext) -> StageOutput:
    """Measure the ticket on its twin."""
    ticket = load_trained(context)
    figures = TwinFigures(context, ticket.tokenizer, ticket.metadata.max_length).of(ticket.model)
    return StageOutput({"ood": figures.model_dump(mode="json")})
