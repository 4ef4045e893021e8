"""Losses: functions of a model and a batch that give one number to minimise."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.training.batches import Batch

Loss = Callable[[PreTrainedModel, Batch], Tensor]


def logits_of(model: PreTrainedModel, batch: Batch) -> Tensor:
    """The model's scores per class, [rows, labels]."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits: Tensor = model(**inputs).logits
    return logits


def cross_entropy(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Mean cross entropy over the batch."""
    return functional.cross_entropy(logits_of(model, batch), batch["labels"])
