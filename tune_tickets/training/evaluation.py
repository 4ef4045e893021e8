"""Accuracy on unchanged rows."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.results.records import CleanFigures
from tune_tickets.results.statistics import wilson
from tune_tickets.training.batches import EncodedRows, in_order
from tune_tickets.training.losses import logits_of
from tune_tickets.training.ood import confusion_of, weighted_f1


def predict(model: PreTrainedModel, rows: EncodedRows, batch_size: int, among: Tensor | None = None) -> Tensor:
    """The predicted class of every row, on the CPU; `among` names the classes to choose from if not all."""
    scores = _scores(model, rows, batch_size)
    return scores.argmax(dim=-1) if among is None else among[scores[:, among].argmax(dim=-1)]


def log_probabilities(model: PreTrainedModel, rows: EncodedRows, batch_size: int) -> Tensor:
    """The log-probability of every class of every row, [rows, labels], on the CPU."""
    return _scores(model, rows, batch_size).log_softmax(dim=-1)


@torch.inference_mode()
def _scores(model: PreTrainedModel, rows: EncodedRows, batch_size: int) -> Tensor:
    was_training = model.training
    model.train(False)
    device = next(model.parameters()).device
    scores = [logits_of(model, batch).cpu() for batch in in_order(rows, batch_size, device)]
    model.train(was_training)
    return torch.cat(scores)


def agreement(predicted: Tensor, labels: Tensor) -> float:
    """Cohen's kappa: accuracy beyond what the shares of predictions and labels give by chance; 0 for a constant."""
    classes = int(max(predicted.max(), labels.max())) + 1
    shares = [values.bincount(minlength=classes).double() / len(values) for values in (predicted, labels)]
    chance = float((shares[0] * shares[1]).sum())
    accuracy = float((predicted == labels).double().mean())
    return 0.0 if chance >= 1.0 else (accuracy - chance) / (1.0 - chance)


def clean_figures(predicted: Tensor, labels: Tensor) -> CleanFigures:
    """Accuracy with its interval, weighted F1, and how much of the rows got one and the same label."""
    rows = len(labels)
    right = int((predicted == labels).sum())
    most = int(predicted.bincount().max())
    return CleanFigures(
        rows=rows,
        accuracy=100.0 * right / rows,
        interval=wilson(right, rows),
        majority_share=100.0 * most / rows,
        weighted_f1=float(weighted_f1(confusion_of(predicted, labels))),
    )
