"""What training stages start with: device, model, rows as tokens, weights of an earlier stage."""

import json
from collections.abc import Sequence

import torch
from safetensors.torch import load, save
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.task import Model
from tune_tickets.config.training import Adversary
from tune_tickets.data.task import Example
from tune_tickets.engine.execution import Resources, StageContext
from tune_tickets.methods.given import TaskRows
from tune_tickets.methods.stages import SUBSTITUTES_FILE, TICKET_FILE, WEIGHTS_FILE
from tune_tickets.models.backbone import load_backbone
from tune_tickets.tickets.ticket import Ticket
from tune_tickets.training.batches import EncodedRows, RowTexts, encode


def device_of(resources: Resources) -> torch.device:
    """The GPU that Ray gave to this stage, or the CPU."""
    return torch.device("cuda" if resources.gpus > 0 and torch.cuda.is_available() else "cpu")


def encode_rows(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Example], max_length: int) -> EncodedRows:
    """Labelled examples as tokens."""
    return encode(tokenizer, [row.texts for row in rows], [row.label for row in rows], max_length)


def load_start(context: StageContext, labels: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The pre-trained model with its seeded classifier, on the CPU; with the weights of the upstream role `weights`."""
    inputs = context.inputs
    model, tokenizer = load_backbone(Model.of_stage(inputs["model"]), labels, inputs["seed"])
    if "weights" in context.stage.upstream:
        given = context.upstream("weights")
        if TICKET_FILE in given.files:
            weights = Ticket.from_bytes(context.store.read(given, TICKET_FILE), where=TICKET_FILE).weights
        else:
            weights = load(context.store.read(given, WEIGHTS_FILE))
        model.load_state_dict(weights)
    return model, tokenizer


def load_model(
    context: StageContext, rows: TaskRows, adversary: Adversary | None = None
) -> tuple[PreTrainedModel, EncodedRows]:
    """The model of `load_start` on the device of the stage, and the training rows as tokens.

    The rows have their texts if the `adversary` rewrites them.
    """
    model, tokenizer = load_start(context, rows.labels)
    model.to(device_of(context.resources))  # type: ignore[arg-type]
    return model, encode_training_rows(context, tokenizer, rows, adversary)


def encode_training_rows(
    context: StageContext, tokenizer: PreTrainedTokenizerBase, rows: TaskRows, adversary: Adversary | None
) -> EncodedRows:
    """The training rows as tokens, with what the adversary needs to rewrite them, if it does."""
    length = context.inputs["max_length"]
    encoded = encode_rows(tokenizer, rows.train, length)
    if adversary is None or adversary.kind != "substitution":
        return encoded
    table = {}
    if adversary.reads_substitutes:
        table = json.loads(context.store.read(context.upstream("substitutes"), SUBSTITUTES_FILE))

    def encode_texts(texts: Sequence[tuple[str, ...]]) -> EncodedRows:
        return encode(tokenizer, texts, [0] * len(texts), length)

    column = rows.columns.index(rows.attacked)
    return encoded.with_texts(RowTexts([row.texts for row in rows.train], column, table, encode_texts))


def keep_weights(context: StageContext, model: PreTrainedModel) -> None:
    """Store all weights of a model for a later stage."""
    weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    context.attempt.put(WEIGHTS_FILE, save(weights))
