"""Stage `srnets_masks`: SRNets' mask training on frozen weights, resumable after every mini-epoch."""

from transformers import PreTrainedModel

from tune_tickets.config.srnets import SRNets
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.srnets import MaskTraining
from tune_tickets.training.evaluation import predict
from tune_tickets.training.ood import ood_figures
from tune_tickets.trial.backbone import device_of, encode_rows
from tune_tickets.trial.bodies.draw import MASK_FILE
from tune_tickets.trial.debiasing import debiased
from tune_tickets.trial.rows import load_rows
from tune_tickets.trial.start import load_start
from tune_tickets.trial.twins import load_ood_train

LOOKS_FILE = "looks.safetensors"
_STATE_FILE = "state.pt"


def run(context: StageContext) -> StageOutput:
    """Train masks under the loss of the pruning; keep the best on the select rows, and those of the looks beside it."""
    training, rows = _prepare(context)
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        training.restore(stored[_STATE_FILE])
        for record in training.history:
            context.report(record)

    def step_done(step: int) -> None:
        context.progress(step, training.recipe.total_steps)
        keep = context.keep_now if training.looked_at(step) else context.keep
        keep(step, training.mini_epoch, lambda: {_STATE_FILE: training.parts()})

    training.run(lambda: context.report(training.history[-1]), step_done)
    assert training.best is not None, "the last step is always looked at"
    context.attempt.put(MASK_FILE, training.best.to_bytes())
    context.attempt.put(LOOKS_FILE, training.looks.to_bytes())
    cost = training_cost(training.state.row_passes, training.state.seconds, rows)
    return StageOutput({**training.history[-1], "training": cost})


def _prepare(context: StageContext) -> tuple[MaskTraining, int]:
    """The mask training, and over how many rows it goes."""
    inputs = context.inputs
    method = SRNets.model_validate(inputs["method"])
    rows, device = load_rows(context), device_of(context.resources)
    model, tokenizer = load_start(context, rows.labels)
    model.to(device)  # type: ignore[arg-type]
    train = rows.train + (load_ood_train(context) if method.ood_rows else ())
    encoded, loss = debiased(context, method.debiasing, encode_rows(tokenizer, train, inputs["max_length"]))
    select = encode_rows(tokenizer, rows.select, inputs["max_length"])

    def look(model: PreTrainedModel) -> float:
        predicted = predict(model, select, inputs["eval_batch_size"])
        return ood_figures("select", method.eval_metric, predicted, select.labels, [None] * len(select), "").value

    return MaskTraining(method, model, encoded, inputs["seed"], device, loss, look), len(encoded)
