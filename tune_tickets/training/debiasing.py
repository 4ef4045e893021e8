"""Losses that lean less on dataset bias: SRNets section 3.3 and appendix A.2.

The rows of a batch carry what the experts say of them as log-probabilities [rows, labels]: the bias model in the column
`BIAS`, the teacher of confidence regularisation in the column `TEACHER`.
"""

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.config.training import Debiasing
from tune_tickets.training.batches import Batch
from tune_tickets.training.losses import logits_of

BIAS, TEACHER = "bias", "teacher"


class TaskLoss:
    """The loss that a `debiasing` section asks for, of a model or of logits that are there already."""

    def __init__(self, settings: Debiasing) -> None:
        self._settings = settings

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The loss of one pass."""
        return self.of_logits(logits_of(model, batch), batch)

    def of_logits(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of a model that gave these scores per class."""
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
    """-(1 - β) y · log p_m (appendix eq. 3), mean over rows; with `normalise`, mean by weight."""
    weights = 1 - bias_degree(bias, labels)
    losses = weights * functional.cross_entropy(logits, labels, reduction="none")
    if normalise:
        return losses.sum() / weights.sum().clamp(min=1e-8)
    return losses.mean()


def confidence_regularised(logits: Tensor, labels: Tensor, bias: Tensor, teacher: Tensor) -> Tensor:
    """-S(p_t, β) · log p_m (appendix eq. 4), mean over rows: the more biased a row, the flatter its target."""
    return functional.cross_entropy(logits, scaled(teacher, bias_degree(bias, labels)))


def scaled(teacher: Tensor, degree: Tensor) -> Tensor:
    """S(p_t, β): the teacher's probabilities to the power of 1 - β, as probabilities again (appendix eq. 4)."""
    return torch.softmax((1 - degree).unsqueeze(-1) * teacher, dim=-1)


def bias_degree(bias: Tensor, labels: Tensor) -> Tensor:
    """β of every row: the probability that the bias model gives to the true label (SRNets section 3.3)."""
    return bias.gather(-1, labels.unsqueeze(-1)).squeeze(-1).exp()
