"""Losses: functions of a model and a batch that return one number to minimise.

Debiasing losses rely less on dataset bias (SRNets section 3.3 and appendix A.2). Their batches have columns with
log-probabilities [rows, labels]: `BIAS` from the bias model, `TEACHER` from the teacher of confidence regularisation.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.config.training import Debiasing
from tune_tickets.training.batches import Batch, model_inputs

Loss = Callable[[PreTrainedModel, Batch], Tensor]
BIAS, TEACHER = "bias", "teacher"


def logits_of(model: PreTrainedModel, batch: Batch) -> Tensor:
    """The scores per class, [rows, labels]."""
    logits: Tensor = model(**model_inputs(batch)).logits
    return logits


def cross_entropy(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Mean cross entropy over the batch."""
    return functional.cross_entropy(logits_of(model, batch), batch["labels"])


class TaskLoss:
    """The loss of a `debiasing` section, computed from a model or from given logits."""

    def __init__(self, settings: Debiasing) -> None:
        self._settings = settings

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The loss of one pass."""
        return self.of_logits(logits_of(model, batch), batch)

    def of_logits(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of a model with these scores per class."""
        labels = batch["labels"]
        if self._settings.loss == "poe":
            return product_of_experts(logits, labels, batch[BIAS])
        if self._settings.loss == "reweight":
            return reweighted(logits, labels, batch[BIAS], self._settings.normalise)
        if self._settings.loss == "confidence":
            return confidence_regularised(logits, labels, batch[BIAS], batch[TEACHER])
        return functional.cross_entropy(logits, labels)


def product_of_experts(logits: Tensor, labels: Tensor, bias: Tensor) -> Tensor:
    """-y · log softmax(log p_m + log p_b), mean over rows: what the bias model knows need not be learnt."""
    return functional.cross_entropy(logits.log_softmax(dim=-1) + bias, labels)


def reweighted(logits: Tensor, labels: Tensor, bias: Tensor, normalise: bool) -> Tensor:
    """-(1 - β) y · log p_m (appendix eq. 3), mean over rows, or with `normalise` the mean by weight."""
    weights = 1 - bias_degree(bias, labels)
    losses = weights * functional.cross_entropy(logits, labels, reduction="none")
    if normalise:
        return losses.sum() / weights.sum().clamp(min=1e-8)
    return losses.mean()


def confidence_regularised(logits: Tensor, labels: Tensor, bias: Tensor, teacher: Tensor) -> Tensor:
    """-S(p_t, β) · log p_m (appendix eq. 4), mean over rows: the more biased a row, the flatter its target."""
    return functional.cross_entropy(logits, scaled(teacher, bias_degree(bias, labels)))


def scaled(teacher: Tensor, degree: Tensor) -> Tensor:
    """S(p_t, β): the probabilities of the teacher to the power of 1 - β, normalised again (appendix eq. 4)."""
    return torch.softmax((1 - degree).unsqueeze(-1) * teacher, dim=-1)


def bias_degree(bias: Tensor, labels: Tensor) -> Tensor:
    """β of every row: the probability that the bias model gives to the true label (SRNets section 3.3)."""
    return bias.gather(-1, labels.unsqueeze(-1)).squeeze(-1).exp()
