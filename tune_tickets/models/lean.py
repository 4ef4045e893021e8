"""Shorter forward passes for attacks, without what the answer does not need.

The questions of an attack differ in a word or two. On a CPU, the first layer computes queries, keys and values of equal
tokens once. If the classifier reads the first token, the last layer computes no other. The family says which models
allow this (`Family.lean`, `Family.last_attention_block`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.models.families import find_family
from tune_tickets.models.families.base import Batch, Family, Lean, PooledForward, PostNormLayer


def lean_logits(model: PreTrainedModel) -> Callable[[Batch], Tensor] | None:
    """The logits of a classifier, equal to those of its own forward pass; None if that cannot be shortened."""
    family, lean = find_family(model), _lean(model)
    if family is None or lean is None or family.classifier(model) is None:
        return None
    layers, first_only = _layers(lean), family.pooling(model.config) is None

    def logits(batch: Batch) -> Tensor:
        return family.classify(model, _last_states(lean, layers, batch, first_only), batch["attention_mask"])

    return logits


def lean_states(model: PreTrainedModel) -> Callable[[Batch], Tensor] | None:
    """The states of all tokens after the last layer, in the same way."""
    lean = _lean(model)
    if lean is None:
        return None
    layers = _layers(lean)
    return lambda batch: _last_states(lean, layers, batch, first_only=False)


@contextmanager
def first_token_only(model: PreTrainedModel) -> Iterator[None]:
    """Inside, the last layer computes only the first token after its attention; the logits are the same."""
    family = find_family(model)
    block = None if family is None or family.classifier(model) is None else family.last_attention_block(model)
    if block is None:
        yield
        return
    hook = block.register_forward_pre_hook(_first)
    try:
        yield
    finally:
        hook.remove()


def _first(module: Any, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # noqa: ANN401 - families share no class
    return tuple(state[:, :1] for state in states)


def _lean(model: PreTrainedModel) -> Lean | None:
    """What the family says, if the model is on a CPU and no hook or parametrization changes it."""
    family: Family | None = find_family(model)
    if family is None or model.device.type != "cpu":
        return None
    for module in model.modules():
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        if nn.utils.parametrize.is_parametrized(module) or not all(isinstance(hook, PooledForward) for hook in hooks):
            return None
    return family.lean(model)


@dataclass(frozen=True)
class _Repeats:
    """Which tokens of a batch are equal: the same token, of the same type, at the same position."""

    one_of_each: Tensor
    kind: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "_Repeats":
        tokens = batch["input_ids"]
        codes = tokens * tokens.shape[1] + torch.arange(tokens.shape[1])
        if "token_type_ids" in batch:
            codes = codes * 2 + batch["token_type_ids"]
        kinds, kind = torch.unique(codes, return_inverse=True)
        kind = kind.flatten()
        return cls(torch.empty_like(kinds).scatter_(0, kind, torch.arange(len(kind))), kind)

    def once(self, work: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
        """The result of work on every token, done for one of each kind."""
        rows, tokens, _ = states.shape
        return work(states.flatten(0, 1)[self.one_of_each])[self.kind].reshape(rows, tokens, -1)


@dataclass(frozen=True)
class _Layer:
    parts: PostNormLayer
    weight: Tensor
    """Of query, key and value together."""
    bias: Tensor

    def __call__(self, states: Tensor, mask: Tensor | None, first_only: bool, repeats: _Repeats | None) -> Tensor:
        parts = self.parts
        query, key, value = (self._by_head(each) for each in self._inward(states, first_only, repeats))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        own = states[:, :1] if first_only else states
        attended = parts.attention_norm(parts.attention_output(mixed.transpose(1, 2).flatten(2)) + own)
        found: Tensor = parts.output_norm(parts.output(parts.activation(parts.intermediate(attended))) + attended)
        return found

    def _inward(self, states: Tensor, first_only: bool, repeats: _Repeats | None) -> tuple[Tensor, Tensor, Tensor]:
        if first_only and repeats is None:
            width = self.parts.query.out_features
            key, value = functional.linear(states, self.weight[width:], self.bias[width:]).chunk(2, dim=-1)
            return self.parts.query(states[:, :1]), key, value
        if repeats is None:
            query, key, value = functional.linear(states, self.weight, self.bias).chunk(3, dim=-1)
        else:
            found = repeats.once(lambda some: functional.linear(some, self.weight, self.bias), states)
            query, key, value = found.chunk(3, dim=-1)
        return query[:, :1] if first_only else query, key, value

    def _by_head(self, states: Tensor) -> Tensor:
        rows, tokens, _ = states.shape
        return states.reshape(rows, tokens, self.parts.heads, -1).transpose(1, 2)


def _layers(lean: Lean) -> tuple[_Layer, ...]:
    found = []
    for parts in lean.layers:
        inward = (parts.query, parts.key, parts.value)
        weight, bias = (torch.cat([getattr(part, name).detach() for part in inward]) for name in ("weight", "bias"))
        found.append(_Layer(parts, weight, bias))
    return tuple(found)


def _last_states(lean: Lean, layers: tuple[_Layer, ...], batch: Batch, first_only: bool) -> Tensor:
    states, seen = lean.embed(batch), batch["attention_mask"].bool()
    mask = None if bool(seen.all()) else seen[:, None, None, :]
    repeats = _Repeats.of(batch) if lean.counts_from_left else None
    for layer in layers:
        states = layer(states, mask, first_only and layer is layers[-1], repeats)
        repeats = None
    return states
