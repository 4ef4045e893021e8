"""A look at a backbone without its weights: what preflight checks need to know."""

import torch
from transformers import AutoModelForSequenceClassification

from tune_tickets.config.model import Model
from tune_tickets.models.anatomy import Anatomy, anatomy_of, check_max_length
from tune_tickets.models.backbone import load_config
from tune_tickets.models.source import backbone_folder


def inspect_backbone(model: Model, max_length: int, setting: str = "task.max_length") -> Anatomy:
    """The numbers of the encoder; refuses unsupported families, too many layers and too long texts."""
    config = load_config(backbone_folder(model), model, labels=("0", "1"))
    with torch.device("meta"):
        network = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    check_max_length(network, max_length, setting)
    return anatomy_of(network)
