"""What training stages begin with: device, model, rows as tokens, weights from upstream, checkpoints."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.task import Model
from tune_tickets.config.training import Debiasing
from tune_tickets.data.task import Example
from tune_tickets.engine.execution import Resources, StageContext
from tune_tickets.methods.given import TaskRows
from tune_tickets.methods.stages import TICKET_FILE, WEIGHTS_FILE
from tune_tickets.models.backbone import load_backbone
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.training.batches import EncodedRows, encode
from tune_tickets.training.debiasing import TaskLoss
from tune_tickets.training.state import TrainState


def device_of(resources: Resources) -> torch.device:
    """The GPU Ray gave this stage, or the CPU."""
    return torch.device("cuda" if resources.gpus > 0 and torch.cuda.is_available() else "cpu")


def load_model(inputs: dict[str, Any], rows: TaskRows, device: torch.device) -> tuple[PreTrainedModel, EncodedRows]:
    """The pre-trained network with its seeded classifier, and the training rows."""
    model, tokenizer = load_backbone(Model.model_validate(inputs["model"]), rows.labels, inputs["seed"])
    model.to(device)  # type: ignore[arg-type]
    return model, encode_rows(tokenizer, rows.train, inputs["max_length"])


def encode_rows(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Example], max_length: int) -> EncodedRows:
    """Labelled examples as tokens."""
    return encode(tokenizer, [row.texts for row in rows], [row.label for row in rows], max_length)


def load_start(context: StageContext, labels: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The network of the inputs with its seeded classifier; with the weights of the stage in the role `weights`."""
    inputs = context.inputs
    model, tokenizer = load_backbone(Model.model_validate(inputs["model"]), labels, inputs["seed"])
    if "weights" in context.stage.upstream:
        given = context.upstream("weights")
        if TICKET_FILE in given.files:
            weights = Ticket.from_bytes(context.store.read(given, TICKET_FILE), where=TICKET_FILE).weights
        else:
            weights = load(context.store.read(given, WEIGHTS_FILE))
        model.load_state_dict(weights)
    return model, tokenizer


_FILE = "log_probabilities.safetensors"
_NAME = "log_probabilities"


def keep_log_probabilities(context: StageContext, log_probabilities: Tensor) -> None:
    """Store the prediction for every training row, [rows, labels]."""
    context.attempt.put(_FILE, save({_NAME: log_probabilities.float().contiguous()}))


def debiased(context: StageContext, debiasing: Debiasing, rows: EncodedRows) -> tuple[EncodedRows, TaskLoss]:
    """The training rows with what the upstream experts say of them, and the loss that reads it."""
    columns = {role: load(context.store.read(context.upstream(role), _FILE))[_NAME] for role in debiasing.experts}
    return rows.with_columns(columns), TaskLoss(debiasing)


_STATE_FILE = "state.pt"
_HISTORY_FILE = "history.json"
_KEPT_FILE = "kept.json"


def keep_training(context: StageContext, state: TrainState, mini_epoch: int, looked: bool = False) -> None:
    """Keep a state to go on from, if it is time for one; what was `looked` at should not have to be again."""

    def files() -> dict[str, Any]:
        kept = {_HISTORY_FILE: context.attempt.records, _KEPT_FILE: context.attempt.files}
        return {_STATE_FILE: state.parts(), **{file: json.dumps(value).encode() for file, value in kept.items()}}

    if looked:
        context.keep_now(state.step, mini_epoch, files)
    else:
        context.keep(state.step, mini_epoch, files)


def restore_training(context: StageContext, state: TrainState) -> None:
    """Go on from the checkpoint, if there is one: its history is told again, files of the earlier try are taken over.

    If one of these is gone, all starts afresh.
    """
    stored = context.store.load_checkpoint(context.stage)
    if stored is None or not context.attempt.adopt(json.loads(stored.get(_KEPT_FILE, b"{}"))):
        return
    state.restore(stored[_STATE_FILE])
    for record in json.loads(stored[_HISTORY_FILE]):
        context.report(record)
