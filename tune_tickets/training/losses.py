"""Losses: functions of a model and a batch that give one number to minimise."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.training.batches import Batch, model_inputs

Loss = Callable[[PreTrainedModel, Batch], Tensor]


def logits_of(model: PreTrainedModel, batch: Batch) -> Tensor:
    """The model's scores per class, [rows, labels]."""
    logits: Tensor = model(**model_inputs(batch)).logits
    return logits


def cross_entropy(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Mean cross entropy over the batch."""
    return functional.cross_entropy(logits_of(model, batch), batch["labels"])
