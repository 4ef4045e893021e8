"""Stage `imp`: one round of iterative magnitude pruning, from the pre-trained weights, resumable at mini-epochs."""

import json
from typing import Any

from safetensors.torch import load, save

from tune_tickets.config.method import Imp
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.imp import Round
from tune_tickets.tickets.drawing import scores_to_bytes
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.trial.backbone import device_of, load_model
from tune_tickets.trial.bodies.draw import SCORES_FILE, load_mask
from tune_tickets.trial.rows import load_rows

_STATE_FILE = "state.pt"
_HISTORY_FILE = "history.json"
_WEIGHTS_FILE = "weights.safetensors"


def run(context: StageContext) -> StageOutput:
    """Train what the rounds before have left and keep the magnitudes: every sparsity of this round is cut by these."""
    method = Imp.model_validate(context.inputs["method"])
    device = device_of(context.resources)
    model, rows = load_model(context.inputs, load_rows(context), device)
    if "before" in context.stage.upstream:
        model.load_state_dict(load(context.store.read(context.upstream("before"), _WEIGHTS_FILE)))
    this = Round(method, model, rows, context.inputs["seed"], device, _mask(context))
    record = train_round(context, this, len(rows))
    if method.rewinding == "learning_rate":
        weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
        context.attempt.put(_WEIGHTS_FILE, save(weights))
    return StageOutput(record)


def train_round(context: StageContext, this: Round, rows: int) -> dict[str, Any]:
    """Train a round, from its checkpoint if there is one; keeps the magnitudes and gives the record of the stage."""
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        this.state.restore(stored[_STATE_FILE])
        this.history = json.loads(stored[_HISTORY_FILE])
        for record in this.history:
            context.report(record)

    def files() -> dict[str, Any]:
        return {_STATE_FILE: this.state.parts(), _HISTORY_FILE: json.dumps(this.history).encode()}

    def step_done(step: int) -> None:
        context.progress(step, this.ends[-1])
        context.keep(step, this.mini_epoch, files)

    this.run(lambda: context.report(this.history[-1]), step_done)
    context.attempt.put(SCORES_FILE, scores_to_bytes(this.scores()))
    return {**this.history[-1], "training": training_cost(this.state.row_passes, this.state.seconds, rows)}


def _mask(context: StageContext) -> UnstructuredMask | None:
    if "within" not in context.stage.upstream:
        return None
    mask = load_mask(context, "within")
    assert isinstance(mask, UnstructuredMask)
    return mask
