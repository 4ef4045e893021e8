"""Accuracy on unchanged rows."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.evaluation.intervals import wilson
from tune_tickets.records import CleanFigures
from tune_tickets.training.batches import EncodedRows, in_order
from tune_tickets.training.losses import logits_of


@torch.inference_mode()
def predict(model: PreTrainedModel, rows: EncodedRows, batch_size: int) -> Tensor:
    """The predicted class of every row, on the CPU."""
    was_training = model.training
    model.train(False)
    device = next(model.parameters()).device
    classes = [logits_of(model, batch).argmax(dim=-1).cpu() for batch in in_order(rows, batch_size, device)]
    model.train(was_training)
    return torch.cat(classes)


def agreement(predicted: Tensor, labels: Tensor) -> float:
    """Cohen's kappa: accuracy beyond what the shares of predictions and labels give by chance; 0 for a constant."""
    classes = int(max(predicted.max(), labels.max())) + 1
    shares = [values.bincount(minlength=classes).double() / len(values) for values in (predicted, labels)]
    chance = float((shares[0] * shares[1]).sum())
    accuracy = float((predicted == labels).double().mean())
    return 0.0 if chance >= 1.0 else (accuracy - chance) / (1.0 - chance)


def clean_figures(predicted: Tensor, labels: Tensor) -> CleanFigures:
    """Accuracy with its interval, and how much of the rows got one and the same label."""
    rows = len(labels)
    right = int((predicted == labels).sum())
    most = int(predicted.bincount().max())
    return CleanFigures(
        rows=rows,
        accuracy=100.0 * right / rows,
        interval=wilson(right, rows),
        majority_share=100.0 * most / rows,
    )
