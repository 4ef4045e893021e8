"""The forward pass of a BERT-like encoder for attacks on a CPU, without what the answer does not need.

The questions of an attack differ in a word or two. Most of their tokens enter the first layer as those of another text
did, so that it computes queries, keys and values of equal tokens once. A classifier reads the first token of the last
layer, which then computes no other.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from tune_tickets.models.anatomy import LayerParts, classify, counts_positions_from_the_left, embed_tokens, layer_parts

Batch = dict[str, Tensor]
_TYPES = ("bert", "camembert", "roberta", "xlm-roberta")


def lean_logits(model: PreTrainedModel) -> Callable[[Batch], Tensor] | None:
    """The logits of a classifier as its own forward pass has them; None if it is not known how to shorten that."""
    if not _is_plain(model) or not hasattr(model, "classifier"):
        return None
    layers = _layers(model)
    return lambda batch: classify(model, _last_states(model, layers, batch, first_only=True))


def lean_states(model: PreTrainedModel) -> Callable[[Batch], Tensor] | None:
    """The states of all tokens after the last layer, likewise."""
    if not _is_plain(model):
        return None
    layers = _layers(model)
    return lambda batch: _last_states(model, layers, batch, first_only=False)


def _is_plain(model: PreTrainedModel) -> bool:
    """Whether its layers are what their type says: on a CPU, nothing hooked in, no weights made up on the way."""
    config = model.config
    return (
        model.device.type == "cpu"
        and config.model_type in _TYPES
        and not getattr(config, "is_decoder", False)
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not any(
            module._forward_hooks or module._forward_pre_hooks or nn.utils.parametrize.is_parametrized(module)
            for module in model.modules()
        )
    )


@dataclass(frozen=True)
class _Repeats:
    """Which tokens of a batch are of one kind: the same token, of the same type, at the same position."""

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
    parts: LayerParts
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
        return states.reshape(rows, tokens, self.parts.attention.num_attention_heads, -1).transpose(1, 2)


def _layers(model: PreTrainedModel) -> tuple[_Layer, ...]:
    found = []
    for parts in layer_parts(model):
        inward = (parts.query, parts.key, parts.value)
        weight, bias = (torch.cat([getattr(part, name).detach() for part in inward]) for name in ("weight", "bias"))
        found.append(_Layer(parts, weight, bias))
    return tuple(found)


def _last_states(model: PreTrainedModel, layers: tuple[_Layer, ...], batch: Batch, first_only: bool) -> Tensor:
    states, seen = embed_tokens(model, batch), batch["attention_mask"].bool()
    mask = None if bool(seen.all()) else seen[:, None, None, :]
    repeats = _Repeats.of(batch) if counts_positions_from_the_left(model) else None
    for layer in layers:
        states = layer(states, mask, first_only and layer is layers[-1], repeats)
        repeats = None
    return states
