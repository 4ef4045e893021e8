"""What every training stage begins with: the pre-trained model of its inputs, the rows as tokens, the device."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.search import Resources
from tune_tickets.config.task import Model
from tune_tickets.data.task import Example
from tune_tickets.models.backbone import load_backbone
from tune_tickets.training.batches import EncodedRows, encode
from tune_tickets.trial.rows import TaskRows


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
