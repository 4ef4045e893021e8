"""Adversarial training: the perturbation delta of word embeddings and its inner maximisation (EarlyRobust eq. 6, 8)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.models.families import family_of
from tune_tickets.training.batches import PERTURBED, Batch
from tune_tickets.training.losses import Loss


def backward(
    model: PreTrainedModel, batch: Batch, loss_fn: Loss, adversary: Adversary, generator: torch.Generator
) -> Tensor:
    """Add the gradients of one batch to the parameters and give the detached loss; `generator` starts delta."""
    if adversary.kind == "freelb":
        return _freelb(model, batch, loss_fn, adversary, generator)
    if adversary.kind == "pgd":
        return _pgd(model, batch, loss_fn, adversary, generator)
    loss = loss_fn(model, batch)
    _differentiate(loss)
    return loss.detach()


def initial_delta(embeddings: nn.Embedding, batch: Batch, adversary: Adversary, generator: torch.Generator) -> Tensor:
    """The random start of delta, [rows, tokens, width]: zero on padding, of about the initial magnitude per row."""
    mask = _movable(batch).unsqueeze(-1).to(embeddings.weight.dtype)
    shape = (*batch["attention_mask"].shape, embeddings.embedding_dim)
    # Drawn where the generator lives, so that every device, meta too, sees the same numbers.
    noise = torch.rand(shape, generator=generator, dtype=embeddings.weight.dtype, device=generator.device)
    noise = (2 * noise - 1).to(mask.device) * mask * adversary.initial_magnitude
    if adversary.norm == "linf":
        return noise
    return noise / (mask.sum(dim=1, keepdim=True) * embeddings.embedding_dim).sqrt().clamp(min=1.0)


def ascend(delta: Tensor, gradient: Tensor, batch: Batch, adversary: Adversary) -> Tensor:
    """One step up the loss and back into the ball, per row (EarlyRobust eq. 8); padding stays zero."""
    gradient = gradient * _movable(batch).unsqueeze(-1)
    delta = delta.detach() + adversary.step_size * gradient / _norm(gradient, adversary).clamp(min=1e-8)
    if adversary.max_norm == 0:
        return delta
    if adversary.norm == "linf":
        return delta.clamp(-adversary.max_norm, adversary.max_norm)
    return delta * (adversary.max_norm / _norm(delta, adversary).clamp(min=1e-8)).clamp(max=1.0)


@contextmanager
def perturbed(embeddings: nn.Embedding, delta: Tensor) -> Iterator[None]:
    """Add delta to what the word embeddings give, before positions, types and LayerNorm."""
    handle = embeddings.register_forward_hook(lambda module, inputs, output: output + delta)
    try:
        yield
    finally:
        handle.remove()


def _freelb(
    model: PreTrainedModel, batch: Batch, loss_fn: Loss, adversary: Adversary, generator: torch.Generator
) -> Tensor:
    """K passes whose gradients add up, each with loss / K, delta climbing between them."""
    embeddings = family_of(model).word_embeddings(model)
    delta = initial_delta(embeddings, batch, adversary, generator)
    losses = []
    for number in range(1, adversary.steps + 1):
        last = number == adversary.steps
        delta.requires_grad_(not last)
        with _same_dropout(batch, adversary, last), perturbed(embeddings, delta):
            loss = loss_fn(model, batch) / adversary.steps
        _differentiate(loss)
        losses.append(loss.detach())
        if delta.grad is not None:
            delta = ascend(delta, delta.grad, batch, adversary)
    return torch.stack(losses).sum()


def _pgd(
    model: PreTrainedModel, batch: Batch, loss_fn: Loss, adversary: Adversary, generator: torch.Generator
) -> Tensor:
    """K gradients of delta alone, then one backward through the parameters at the delta reached."""
    embeddings = family_of(model).word_embeddings(model)
    delta = initial_delta(embeddings, batch, adversary, generator)
    for _ in range(adversary.steps):
        delta.requires_grad_(True)
        with _same_dropout(batch, adversary, last=False), perturbed(embeddings, delta):
            loss = loss_fn(model, batch)
        (gradient,) = torch.autograd.grad(loss, delta)
        delta = ascend(delta, gradient, batch, adversary)
    with perturbed(embeddings, delta):
        loss = loss_fn(model, batch)
    _differentiate(loss)
    return loss.detach()


def _movable(batch: Batch) -> Tensor:
    """Which tokens delta may move: all but padding, unless the batch says otherwise."""
    return batch.get(PERTURBED, batch["attention_mask"])


def _same_dropout(batch: Batch, adversary: Adversary, last: bool) -> AbstractContextManager[None]:
    """With a fixed dropout mask, every pass but the last gives back the random numbers it used."""
    device = batch["input_ids"].device
    devices = [device] if device.type == "cuda" else []
    return torch.random.fork_rng(devices, enabled=adversary.fixed_dropout and not last)


def _norm(values: Tensor, adversary: Adversary) -> Tensor:
    order = float("inf") if adversary.norm == "linf" else 2
    norm: Tensor = torch.linalg.vector_norm(values, ord=order, dim=(1, 2), keepdim=True)
    return norm


def _differentiate(loss: Tensor) -> None:
    torch.autograd.backward(loss)
