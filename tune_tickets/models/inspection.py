"""A look at a backbone without its weights: what preflight checks need to know."""

from collections.abc import Sequence

import torch
from transformers import AutoModelForSequenceClassification

from tune_tickets.config.task import Model
from tune_tickets.models.anatomy import Anatomy, anatomy_of, check_max_length
from tune_tickets.models.backbone import load_config
from tune_tickets.models.source import backbone_folder
from tune_tickets.models.tokenizer import open_tokenizer


def inspect_backbone(model: Model, max_length: int, setting: str = "task.max_length") -> Anatomy:
    """The numbers of the encoder; refuses unsupported families, too many layers and too long texts."""
    config = load_config(backbone_folder(model), model, labels=("0", "1"))
    with torch.device("meta"):
        network = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    check_max_length(network, max_length, setting)
    return anatomy_of(network)


def unreadable_markers(model: Model, markers: Sequence[str]) -> tuple[str, ...]:
    """The markers that the tokenizer does not read as a token of their own: unknown, in pieces, or equal to another."""
    tokenizer = open_tokenizer(backbone_folder(model), f"model.source {model.source!r}")
    # As they stand in a text: byte-pair vocabularies tell the start of a text from what follows a space.
    found = {marker: tuple(tokenizer(f"{marker} a", add_special_tokens=False)["input_ids"]) for marker in markers}
    rest = tuple(tokenizer("a", add_special_tokens=False)["input_ids"])
    return tuple(
        marker
        for marker, tokens in found.items()
        if len(tokens) != len(rest) + 1 or tokens[0] == tokenizer.unk_token_id or list(found.values()).count(tokens) > 1
    )
