"""Adversaries in training: the perturbation delta of word embeddings and its inner maximisation (EarlyRobust eq. 6, 8).

`Substitution` rewrites texts instead. An adversary is an object that takes part in every step. What it remembers from
step to step, if anything, belongs to the checkpoint of the training. To add a kind, derive from `Plain` and add it to
the table `_KINDS`.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.errors import ConfigError
from tune_tickets.models.families import family_of
from tune_tickets.models.seeding import derived_seed
from tune_tickets.training.batches import PERTURBED, ROW, Batch, RowTexts, model_inputs
from tune_tickets.training.losses import Loss, logits_of
from tune_tickets.training.rewriting import corrupted

if TYPE_CHECKING:
    from tune_tickets.training.trainer import Part


class Plain:
    """No adversary: one pass over the batch. The base of all kinds."""

    def __init__(self, settings: Adversary, texts: RowTexts | None = None) -> None:
        """`texts` are those of the training rows, for kinds that rewrite them."""
        self.settings, self.texts = settings, texts

    @property
    def passes(self) -> float:
        """Forward and backward passes per step."""
        return self.settings.passes

    def parts(self) -> Mapping[str, "Part"]:
        """What it remembers from step to step, by name."""
        return {}

    def backward(self, model: PreTrainedModel, batch: Batch, loss_fn: Loss, generator: torch.Generator) -> Tensor:
        """Add the gradients of one batch to the parameters.

        Args:
            model: the model in training mode.
            batch: the rows of this step.
            loss_fn: the loss of one pass.
            generator: random numbers of this step, for the perturbation.

        Returns:
            The detached loss.
        """
        loss = loss_fn(model, batch)
        torch.autograd.backward(loss)
        return loss.detach()


class Pgd(Plain):
    """K gradients of delta alone, then one backward pass through the parameters at the final delta."""

    def backward(self, model: PreTrainedModel, batch: Batch, loss_fn: Loss, generator: torch.Generator) -> Tensor:
        """Climb first, then train at the top."""
        settings, embeddings = self.settings, family_of(model).word_embeddings(model)
        delta = initial_delta(embeddings, batch, settings, generator)
        for _ in range(settings.steps):
            delta.requires_grad_(True)
            with _same_dropout(batch, settings, last=False), perturbed(embeddings, delta):
                loss = loss_fn(model, batch)
            (gradient,) = torch.autograd.grad(loss, delta)
            delta = ascend(delta, gradient, batch, settings)
        with perturbed(embeddings, delta):
            return super().backward(model, batch, loss_fn, generator)


class FreeLB(Plain):
    """K passes with loss / K each. Their gradients add up while delta climbs between them."""

    def backward(self, model: PreTrainedModel, batch: Batch, loss_fn: Loss, generator: torch.Generator) -> Tensor:
        """Train on every pass of the ascent."""
        settings, embeddings = self.settings, family_of(model).word_embeddings(model)
        delta = initial_delta(embeddings, batch, settings, generator)
        losses = []
        for number in range(1, settings.steps + 1):
            last = number == settings.steps
            delta.requires_grad_(not last)
            with _same_dropout(batch, settings, last), perturbed(embeddings, delta):
                loss = loss_fn(model, batch) / settings.steps
            torch.autograd.backward(loss)
            losses.append(loss.detach())
            if delta.grad is not None:
                delta = ascend(delta, delta.grad, batch, settings)
        return torch.stack(losses).sum()


class Substitution(Plain):
    """The worst of k random corruptions of each row, by its loss. Some rows stay as they are.

    A corruption depends on the step and the row only, so nothing has to be remembered.
    """

    def backward(self, model: PreTrainedModel, batch: Batch, loss_fn: Loss, generator: torch.Generator) -> Tensor:
        """Rewrite the rows, then train on them."""
        worst = self.worst(model, batch, seed=generator.initial_seed())
        return super().backward(model, {**batch, **worst}, loss_fn, generator)

    def worst(self, model: PreTrainedModel, batch: Batch, seed: int) -> Batch:
        """The rewritten rows of a batch.

        Args:
            model: is left in training mode.
            batch: has a column `ROW`.
            seed: decides, together with the number of a row, what its corruptions are.

        Returns:
            The inputs of the model.
        """
        kept = self._own_texts()
        chosen = [kept.texts[row] for row in batch[ROW].tolist()]
        tries = [self._tries(row, seed) for row in batch[ROW].tolist()]
        places = [place for place, own in enumerate(tries) for _ in own]
        found = [text for own in tries for text in own]
        highest: dict[int, float] = {}
        for place, text, loss in zip(places, found, self._losses(model, batch, places, found), strict=True):
            if loss > highest.get(place, float("-inf")):
                chosen[place], highest[place] = text, loss
        encoded = kept.encode(chosen)
        return model_inputs(encoded.batch(torch.arange(len(chosen)), batch["input_ids"].device))

    def _own_texts(self) -> RowTexts:
        if self.texts is None:
            raise ConfigError("an adversary of kind substitution needs the texts of labelled rows: choose another kind")
        return self.texts

    def _tries(self, row: int, seed: int) -> list[tuple[str, ...]]:
        """The corruptions of a row; none if it stays clean."""
        settings, kept, numbers = self.settings, self._own_texts(), Random(derived_seed(seed, "row", row))
        if numbers.random() < settings.clean_share:
            return []
        texts, column = kept.texts[row], kept.column
        return [
            (*texts[:column], corrupted(texts[column], kept.substitutes, settings, numbers), *texts[column + 1 :])
            for _ in range(settings.tries)
        ]

    @torch.no_grad()
    def _losses(
        self, model: PreTrainedModel, batch: Batch, places: list[int], found: list[tuple[str, ...]]
    ) -> list[float]:
        """The cross entropy of each text, with the label of the row in that place of the batch, without dropout."""
        if not found:
            return []
        labels, encoded = batch["labels"], self._own_texts().encode(found)
        losses = torch.empty(len(found))
        model.train(False)
        # Texts of similar length together, as many as a training step has rows.
        for part in torch.split(encoded.lengths.argsort(stable=True), len(labels)):
            logits = logits_of(model, encoded.batch(part, labels.device))
            wanted = labels[torch.tensor(places)[part].to(labels.device)]
            losses[part] = nn.functional.cross_entropy(logits, wanted, reduction="none").float().cpu()
        model.train(True)
        return losses.tolist()


_KINDS: dict[str, type[Plain]] = {
    "none": Plain,
    "pgd": Pgd,
    "freelb": FreeLB,
    "freelb++": FreeLB,  # its settings make the difference
    "substitution": Substitution,
}


def adversary_of(settings: Adversary, texts: RowTexts | None = None) -> Plain:
    """The adversary of a section, with an empty memory."""
    return _KINDS[settings.kind](settings, texts)


def initial_delta(embeddings: nn.Embedding, batch: Batch, adversary: Adversary, generator: torch.Generator) -> Tensor:
    """The random start of delta, [rows, tokens, width]: zero on padding, of about the initial magnitude per row."""
    mask = _movable(batch).unsqueeze(-1).to(embeddings.weight.dtype)
    shape = (*batch["attention_mask"].shape, embeddings.embedding_dim)
    # Drawn on the device of the generator, so that every device, also meta, sees the same numbers.
    noise = torch.rand(shape, generator=generator, dtype=embeddings.weight.dtype, device=generator.device)
    noise = (2 * noise - 1).to(mask.device) * mask * adversary.initial_magnitude
    if adversary.norm == "linf":
        return noise
    return noise / (mask.sum(dim=1, keepdim=True) * embeddings.embedding_dim).sqrt().clamp(min=1.0)


def ascend(delta: Tensor, gradient: Tensor, batch: Batch, adversary: Adversary) -> Tensor:
    """One step up the loss, then back into the ball, for each row (EarlyRobust eq. 8). Padding stays zero."""
    gradient = gradient * _movable(batch).unsqueeze(-1)
    delta = delta.detach() + adversary.step_size * gradient / _norm(gradient, adversary).clamp(min=1e-8)
    if adversary.max_norm == 0:
        return delta
    if adversary.norm == "linf":
        return delta.clamp(-adversary.max_norm, adversary.max_norm)
    return delta * (adversary.max_norm / _norm(delta, adversary).clamp(min=1e-8)).clamp(max=1.0)


@contextmanager
def perturbed(embeddings: nn.Embedding, delta: Tensor) -> Iterator[None]:
    """Add delta to the output of the word embeddings, before positions, types and LayerNorm."""
    handle = embeddings.register_forward_hook(lambda module, inputs, output: output + delta)
    try:
        yield
    finally:
        handle.remove()


def _movable(batch: Batch) -> Tensor:
    """Which tokens delta may move: all but padding, unless the batch says otherwise."""
    return batch.get(PERTURBED, batch["attention_mask"])


def _same_dropout(batch: Batch, adversary: Adversary, last: bool) -> AbstractContextManager[None]:
    """With a fixed dropout mask, every pass except the last one gives back the random numbers it used."""
    device = batch["input_ids"].device
    devices = [device] if device.type == "cuda" else []
    return torch.random.fork_rng(devices, enabled=adversary.fixed_dropout and not last)


def _norm(values: Tensor, adversary: Adversary) -> Tensor:
    order = float("inf") if adversary.norm == "linf" else 2
    norm: Tensor = torch.linalg.vector_norm(values, ord=order, dim=(1, 2), keepdim=True)
    return norm
