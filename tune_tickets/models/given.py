"""The mask of a finished ticket, so that other tickets can be made like it."""

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError
from tune_tickets.models.backbone import load_config
from tune_tickets.models.matrices import weight_matrices
from tune_tickets.models.source import backbone_folder
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import read_ticket
from tune_tickets.tickets.unstructured import UnstructuredMask

_SHAPE = ("model_type", "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size")


def given_mask(path: str, model: Model) -> StructuredMask | UnstructuredMask:
    """What the ticket in a file keeps of its backbone, which must be built like `model`.

    Heads and neurons that were cut are listed in the file; single weights that were cut are exactly zero there.
    """
    ticket = read_ticket(Path(path).expanduser())
    config = load_config(backbone_folder(model), model, ticket.metadata.labels)
    for key in _SHAPE:
        theirs, ours = ticket.metadata.config.get(key), getattr(config, key)
        if theirs != ours:
            raise ConfigError(
                f"the ticket {path} has {key} {theirs}, but model.source {model.source!r} has {ours}: name a ticket "
                "found in the same backbone (and set the same model.layers)"
            )
    if not (ticket.mask.heads.all() and ticket.mask.neurons.all()):
        return ticket.mask
    with torch.device("meta"):
        network = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    kept = {name: ticket.weights[name] != 0 for name in weight_matrices(network)}
    if all(bool(matrix.all()) for matrix in kept.values()):
        raise ConfigError(f"the ticket {path} is a whole model, nothing was cut from it; name a ticket that is sparse")
    return UnstructuredMask(kept)
