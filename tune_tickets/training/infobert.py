"""InfoBERT (Wang et al. 2021): cross entropy with two regularisers by mutual information, for FreeLB or PGD training.

For word i of a text let x_i be the word, t_i its local feature (what the embedding layer makes of it) and z the global
feature (the first token after the last layer). Minimised is, with beta and alpha of the paper,

    CE + beta x I(X; T) - alpha x I(T_anchored; Z)

*Information bottleneck.* The CLUB bound I(X; T) <= E log p(t_i | x_i) - E log p(t_j | x_i), with an embedding layer that
is deterministic up to unit Gaussian noise: p(t | x_i) = N(t_i, 1). The first term is then constant, and the bound is the
mean of |t_i - t_j|^2 / 2 over all pairs of words in the batch, which is the sum of their variances.

*Anchored features.* Words whose embedding has a very large gradient are not robust, those with a very small one not
useful; the words between the quantiles `low` and `high` of the gradient's norm are anchors. InfoNCE, a lower bound:

    I(T; Z) >= mean over anchors t of  g(t, z) - log( mean over the batch's texts of exp g(t, z') )

with a critic g that trains along. An adversarial pass divides the whole loss by K, so the terms enter as term / K.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.models.anatomy import word_embeddings
from tune_tickets.training.batches import Batch

_CRITIC = "infobert_critic"


class Critic(nn.Module):
    """g(t, z): how well a local and a global feature go together; a layer of 300 units, as published."""

    def __init__(self, width: int, seed: int, hidden: int = 300) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.local = nn.Linear(width, hidden)
            self.whole = nn.Linear(width, hidden, bias=False)
            self.score = nn.Linear(hidden, 1)

    def forward(self, local: Tensor, whole: Tensor) -> Tensor:
        """Scores [rows, anchors, texts] of all local features [rows, anchors, width] with all texts [texts, width]."""
        # One layer over the concatenation (t, z) is the sum of a layer over each.
        hidden = torch.relu(self.local(local).unsqueeze(2) + self.whole(whole))
        scores: Tensor = functional.softplus(self.score(hidden)).squeeze(-1)
        return scores


@dataclass(frozen=True)
class InfoBert:
    """The loss of a model and a batch; defaults as published. `critic` has to train along: see `joined`."""

    critic: Critic
    alpha: float = 5e-3
    beta: float = 5e-3
    low: float = 0.5
    high: float = 0.9

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """Cross entropy and both regularisers, from one forward pass."""
        inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
        with _word_vectors(model) as words:
            output: Any = model(**inputs, output_hidden_states=True)
        loss = functional.cross_entropy(output.logits, batch["labels"])
        (gradient,) = torch.autograd.grad(loss, words[0], retain_graph=True)
        local, whole = output.hidden_states[0], output.hidden_states[-1][:, 0]
        tokens, anchored = anchors(gradient, batch["attention_mask"], self.low, self.high)
        chosen = local.gather(1, tokens.unsqueeze(-1).expand(-1, -1, local.shape[-1]))
        return (
            loss
            + self.beta * bottleneck(local, batch["attention_mask"])
            - self.alpha * info_nce(self.critic(chosen, whole), anchored)
        )


@contextmanager
def joined(model: PreTrainedModel, critic: Critic) -> Iterator[None]:
    """Make the critic a part of the model, so that optimizer and checkpoints hold it; afterwards it is gone again."""
    model.add_module(_CRITIC, critic)
    try:
        yield
    finally:
        delattr(model, _CRITIC)


def bottleneck(local: Tensor, attention_mask: Tensor) -> Tensor:
    """The CLUB bound: the mean of |t_i - t_j|^2 / 2 over all pairs of real tokens; `local` is [rows, tokens, width]."""
    weight = attention_mask.unsqueeze(-1).to(local.dtype)
    count = weight.sum()
    mean = (local * weight).sum(dim=(0, 1)) / count
    return ((local - mean).square() * weight).sum() / count


def anchors(gradient: Tensor, attention_mask: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """The tokens [rows, slots] of a row between two quantiles of the gradient's norm, and which slots are in use."""
    lengths = attention_mask.sum(dim=1, keepdim=True)
    norms = gradient.norm(dim=-1).masked_fill(attention_mask == 0, torch.inf)
    first, end = (lengths * low).ceil().long(), (lengths * high).ceil().long()
    tokens = attention_mask.shape[1]
    slots = min(tokens, math.ceil(tokens * (high - low)) + 1)
    places = first + torch.arange(slots, device=gradient.device)
    order = norms.argsort(dim=1, stable=True)
    return order.gather(1, places.clamp(max=tokens - 1)), places < end


def info_nce(scores: Tensor, used: Tensor) -> Tensor:
    """The InfoNCE bound from scores [rows, anchors, rows], whose diagonal of rows is right; 0 without any anchor."""
    rows = len(scores)
    right = scores.diagonal(dim1=0, dim2=2).transpose(0, 1)
    bounds = right - scores.logsumexp(dim=2) + math.log(rows)
    return (bounds * used).sum() / used.sum().clamp(min=1)


@contextmanager
def _word_vectors(model: PreTrainedModel) -> Iterator[list[Tensor]]:
    """Collect what the word embeddings give, perturbed or not, in a form that has a gradient even if all is frozen."""
    found: list[Tensor] = []

    def keep(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
        found.append(output if output.requires_grad else output.detach().requires_grad_(True))
        return found[-1]

    handle = word_embeddings(model).register_forward_hook(keep)
    try:
        yield found
    finally:
        handle.remove()
