"""Measuring models on the select rows of an OOD twin: what the stages `ood` and `ood_curve` share."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.data.rows import rows_digest
from tune_tickets.engine.execution import StageContext
from tune_tickets.results.records import OodFigures
from tune_tickets.training.evaluation import predict
from tune_tickets.training.ood import choices, counted_as, ood_figures
from tune_tickets.trial.backbone import encode_rows
from tune_tickets.trial.twins import load_twin_rows


class TwinFigures:
    """The twin of a stage as tokens, for any number of models that read them."""

    def __init__(self, context: StageContext, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self.twin = load_twin_rows(context)
        self._batch_size = context.inputs["eval_batch_size"]
        self._encoded = encode_rows(tokenizer, self.twin.rows, max_length)

    def of(self, model: PreTrainedModel) -> OodFigures:
        """Predict every row once, count the answers as the twin's labels, measure all rows and each group."""
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
