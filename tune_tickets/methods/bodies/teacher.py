"""Stage `teacher`: what a fine-tuned model says of the rows it was trained on, for confidence regularisation."""

from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.evaluate import load_trained
from tune_tickets.methods.bodies.start import encode_rows, keep_log_probabilities
from tune_tickets.methods.given import load_rows
from tune_tickets.training.evaluation import clean_figures, log_probabilities


def run(context: StageContext) -> StageOutput:
    """Predict every training row once."""
    teacher = load_trained(context)
    encoded = encode_rows(teacher.tokenizer, load_rows(context).train, teacher.metadata.max_length)
    predicted = log_probabilities(teacher.model, encoded, context.inputs["eval_batch_size"])
    keep_log_probabilities(context, predicted)
    accuracy = clean_figures(predicted.argmax(dim=-1), encoded.labels).accuracy
    return StageOutput({"figures": {"train_accuracy": accuracy}})
