"""The cheap look at robustness during retraining: accuracy under a perturbation of word embeddings."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.models.families import family_of
from tune_tickets.training.adversary import ascend, initial_delta, perturbed
from tune_tickets.training.batches import Batch
from tune_tickets.training.losses import logits_of


def accuracy_under_pgd(
    model: PreTrainedModel, batches: Iterable[Batch], adversary: Adversary, generator: torch.Generator
) -> float:
    """Percentage of rows that stay right at the start and after every ascent step, in eval mode."""
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
        # The sum: a row's gradient must not depend on how many rows share its batch.
        (gradient,) = torch.autograd.grad(functional.cross_entropy(logits, batch["labels"], reduction="sum"), delta)
        delta = ascend(delta, gradient, batch, adversary)
    with torch.no_grad(), perturbed(embeddings, delta):
        return survived & (logits_of(model, batch).argmax(dim=-1) == batch["labels"])
