"""What a model gets right: on unchanged rows, and under a cheap perturbation of its word embeddings."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.models.families import family_of
from tune_tickets.results.records import CleanFigures
from tune_tickets.results.statistics import wilson
from tune_tickets.training.adversary import ascend, initial_delta, perturbed
from tune_tickets.training.batches import Batch, EncodedRows, in_order
from tune_tickets.training.losses import logits_of
from tune_tickets.training.ood import confusion_of, weighted_f1


def predict(model: PreTrainedModel, rows: EncodedRows, batch_size: int, among: Tensor | None = None) -> Tensor:
    """The predicted class of every row, on the CPU. `among` lists the classes to choose from; None for all."""
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
    """Cohen's kappa: the accuracy above chance. It is 0 for a constant prediction."""
    classes = int(max(predicted.max(), labels.max())) + 1
    shares = [values.bincount(minlength=classes).double() / len(values) for values in (predicted, labels)]
    chance = float((shares[0] * shares[1]).sum())
    accuracy = float((predicted == labels).double().mean())
    return 0.0 if chance >= 1.0 else (accuracy - chance) / (1.0 - chance)


def clean_figures(predicted: Tensor, labels: Tensor) -> CleanFigures:
    """Accuracy with its interval, weighted F1, and the share of the most frequent prediction."""
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


def accuracy_under_pgd(
    model: PreTrainedModel, batches: Iterable[Batch], adversary: Adversary, generator: torch.Generator
) -> float:
    """Percentage of rows that are right at the start and after every ascent step, in eval mode."""
    was_training = model.training
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train(False)
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        survived = torch.cat([_survived(model, batch, adversary, generator) for batch in batches])
    finally:
        model.train(was_training)
        for parameter in trained:
            parameter.requires_grad_(True)
    return 100.0 * float(survived.double().mean())


def _survived(model: PreTrainedModel, batch: Batch, adversary: Adversary, generator: torch.Generator) -> Tensor:
    embeddings = family_of(model).word_embeddings(model)
    delta = initial_delta(embeddings, batch, adversary, generator)
    survived = torch.ones_like(batch["labels"], dtype=torch.bool)
    for _ in range(adversary.steps):
        delta.requires_grad_(True)
        with perturbed(embeddings, delta):
            logits = logits_of(model, batch)
        survived &= logits.argmax(dim=-1) == batch["labels"]
        # The sum, so that the gradient of a row does not depend on the size of its batch.
        (gradient,) = torch.autograd.grad(functional.cross_entropy(logits, batch["labels"], reduction="sum"), delta)
        delta = ascend(delta, gradient, batch, adversary)
    with torch.no_grad(), perturbed(embeddings, delta):
        return survived & (logits_of(model, batch).argmax(dim=-1) == batch["labels"])
