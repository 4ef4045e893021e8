"""Adversaries in training: the perturbation delta of word embeddings and its inner maximisation (EarlyRobust eq. 6, 8).

An adversary is an object that takes part in every step. What it remembers from step to step, if anything, belongs to
the checkpoint of the training. To add a kind, derive from `Plain` and add it to the table `_KINDS`.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.models.families import family_of
from tune_tickets.training.batches import PERTURBED, Batch
from tune_tickets.training.losses import Loss

if TYPE_CHECKING:
    from tune_tickets.training.trainer import Part


class Plain:
    """No adversary: one pass over the batch. The base of all kinds."""

    def __init__(self, settings: Adversary) -> None:
        self.settings = settings

    @property
    def passes(self) -> int:
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
            generator: random numbers for the start of the perturbation.

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


_KINDS: dict[str, type[Plain]] = {"none": Plain, "pgd": Pgd, "freelb": FreeLB}


def adversary_of(settings: Adversary) -> Plain:
    """The adversary of a section, with an empty memory."""
    return _KINDS[settings.kind](settings)


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
