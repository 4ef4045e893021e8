"""Stage `masks`: RobustT's mask training on the frozen weights of a fine-tuned model, resumable at mini-epochs."""

from typing import Any

from torch import Tensor

from tune_tickets.config.method import RobustT
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.robustt import Search, magnitude_scores, structured_scores
from tune_tickets.models.loading import LoadedTicket
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.drawing import scores_to_bytes
from tune_tickets.trial.backbone import device_of, encode_rows
from tune_tickets.trial.bodies.draw import SCORES_FILE
from tune_tickets.trial.bodies.evaluate import load_trained
from tune_tickets.trial.bodies.search import TRAJECTORY_FILE
from tune_tickets.trial.rows import load_rows

_STATE_FILE = "state.pt"


def run(context: StageContext) -> StageOutput:
    """Train the masks and keep their logits, or the magnitudes instead: every sparsity is drawn from these."""
    method = RobustT.model_validate(context.inputs["method"])
    finetuned = load_trained(context)
    record: dict[str, Any] = {}
    if method.scores == "magnitude":
        scores = magnitude_scores(finetuned.model, method)
    else:
        scores, record = _train(context, method, finetuned)
    if method.grouping == "structured":
        heads, neurons = structured_scores(finetuned.model, scores)
        context.attempt.put(TRAJECTORY_FILE, Trajectory(heads[None], neurons[None]).to_bytes())
    else:
        context.attempt.put(SCORES_FILE, scores_to_bytes(scores))
    return StageOutput(record)


def _train(context: StageContext, method: RobustT, finetuned: LoadedTicket) -> tuple[dict[str, Tensor], dict[str, Any]]:
    rows = encode_rows(finetuned.tokenizer, load_rows(context).train, context.inputs["max_length"])
    search = Search(method, finetuned.model, rows, context.inputs["seed"], device_of(context.resources))
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        search.restore(stored[_STATE_FILE])
        for record in search.history:
            context.report(record)

    def step_done(step: int) -> None:
        context.progress(step, search.ends[-1])
        context.keep(step, search.mini_epoch, lambda: {_STATE_FILE: search.parts()})

    search.run(lambda: context.report(search.history[-1]), step_done)
    training = training_cost(search.state.row_passes, search.state.seconds, len(rows))
    return search.gates.scores(), {**search.history[-1], "training": training}
