"""InfoBERT (Wang et al., 2021) as a loss: cross entropy + β x information bottleneck - α x anchored features.

The local features T are the outputs of the embedding layer for the words of a text. The global feature Z is the output
of the last layer for the first token, or with mean pooling the mean over all tokens. An adversary perturbs both, like
the logits.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.config.training import Debiasing, Regulariser
from tune_tickets.models.families import family_of
from tune_tickets.models.seeding import derived_seed
from tune_tickets.training.batches import Batch, model_inputs
from tune_tickets.training.losses import TaskLoss


class InfoBert:
    """The loss. Its critic trains together with the model but is not part of it. Token ids in `frame` are not words."""

    def __init__(
        self, settings: Regulariser, critic: "Critic", frame: frozenset[int], task: TaskLoss | None = None
    ) -> None:
        self._settings = settings
        self._critic = critic
        self._frame = frame
        self._task = task or TaskLoss(Debiasing())

    def __call__(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The loss of one pass."""
        settings = self._settings
        output = model(**model_inputs(batch), output_hidden_states=True)
        local = output.hidden_states[0]
        sentence = family_of(model).text_vectors(model, output.hidden_states[-1], batch["attention_mask"])
        words = word_mask(batch, self._frame)
        task = self._task.of_logits(output.logits, batch)
        loss = task
        if settings.beta > 0:
            loss = loss + settings.beta * bottleneck(local, words)
        if settings.alpha > 0:
            (gradient,) = torch.autograd.grad(task, local, retain_graph=True)
            chosen, counts = anchored_words(gradient.norm(dim=-1), words, settings.low, settings.high)
            anchors = local.gather(1, chosen.unsqueeze(-1).expand(-1, -1, local.shape[-1]))
            loss = loss - settings.alpha * anchored_information(self._critic(anchors, sentence), counts)
        return loss


class Critic(nn.Module):
    """The score g(t, z) of a local and a global feature: two layers on their concatenation, then softplus."""

    def __init__(self, features: int, width: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "critic"))
            self.hidden = nn.Linear(2 * features, width)
            self.score = nn.Linear(width, 1)

    def forward(self, local: Tensor, sentence: Tensor) -> Tensor:
        """Scores of all pairs of local [rows, some, features] and sentence [others, features]: [others, rows, some]."""
        # A layer on a concatenation is a sum of two layers, so each feature passes it once instead of once per pair.
        of_local, of_sentence = self.hidden.weight.chunk(2, dim=1)
        hidden = functional.linear(local, of_local, self.hidden.bias).unsqueeze(0)
        hidden = hidden + functional.linear(sentence, of_sentence).unsqueeze(1).unsqueeze(1)
        scores: Tensor = functional.softplus(self.score(hidden.relu())).squeeze(-1)
        return scores


def word_mask(batch: Batch, frame: frozenset[int]) -> Tensor:
    """Which tokens are words, [rows, tokens]: neither padding nor one of the ids that frame a text."""
    ids = batch["input_ids"]
    return batch["attention_mask"].bool() & ~torch.isin(ids, torch.tensor(sorted(frame), device=ids.device))


def bottleneck(local: Tensor, words: Tensor) -> Tensor:
    """The upper bound on I(X; T): half the mean squared distance of two words' features, over all pairs in the batch.

    This is CLUB for a Gaussian p(t | x) of unit variance around the embedding. It is computed as the mean squared
    distance from the mean feature, which is the same number.
    """
    weights = words.unsqueeze(-1).to(local.dtype)
    count = weights.sum().clamp(min=1.0)
    mean = (weights * local).sum(dim=(0, 1)) / count
    return (weights * (local - mean).square()).sum() / count


def anchored_words(norms: Tensor, words: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Positions of the anchored words of each row, [rows, most], and which of these count (InfoBERT algorithm 1).

    The n words of a row are ranked by gradient, smallest first. Those ranked ceil(low n) to ceil(high n) - 1, from 0,
    are anchored. Shapes depend on the shape of the batch only, never on its values.
    """
    tokens = words.shape[1]
    order = norms.detach().masked_fill(~words, math.inf).argsort(dim=1, stable=True)
    first, end = (_ceil(share * words.sum(dim=1, keepdim=True)) for share in (low, high))
    ranks = first + torch.arange(math.ceil((high - low) * tokens), device=words.device)
    return order.gather(1, ranks.clamp(max=tokens - 1)), ranks < end


def anchored_information(scores: Tensor, counts: Tensor) -> Tensor:
    """InfoNCE, the lower bound on I(T; Z) over the anchored words t of the batch and the global features z of its rows.

    The mean of g(t, z) - log mean over all t' of exp g(t', z), where z belongs to the row of t. `scores` is
    [rows of z, rows, most]; `counts` marks the anchored words in the last two dimensions. 0 if there is none.
    """
    number = counts.sum().clamp(min=1).to(scores.dtype)
    own = scores.diagonal(dim1=0, dim2=1).transpose(0, 1)
    # Not minus infinity: a batch without any anchored word would have NaN gradients.
    others = scores.masked_fill(~counts, torch.finfo(scores.dtype).min)
    everyone = others.flatten(1).logsumexp(dim=1, keepdim=True) - number.log()
    return torch.where(counts, own - everyone, 0.0).sum() / number


def _ceil(values: Tensor) -> Tensor:
    # 0.7 x 10 may be a rounding error above 7.
    return values.double().round(decimals=6).ceil().long()
