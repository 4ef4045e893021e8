"""Where the parts of a BERT-like encoder are: the one place that knows attribute names of transformers models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.errors import ConfigError, ResourceError

FAMILIES = "BERT, RoBERTa and models built like them (XLM-RoBERTa, CamemBERT, ELECTRA)"


@dataclass(frozen=True)
class Anatomy:
    """The numbers of a dense encoder: `heads` and `neurons` are per layer."""

    layers: int
    heads: int
    neurons: int
    head_size: int


@dataclass(frozen=True)
class LayerParts:
    """The modules of one layer: the linear ones, which gates act on and surgery cuts, and what is between them."""

    attention: Any
    """The self-attention module, which keeps its number of heads in attributes."""
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_output: nn.Linear
    attention_norm: nn.LayerNorm
    intermediate: nn.Linear
    activation: Callable[[Tensor], Tensor]
    output: nn.Linear
    output_norm: nn.LayerNorm


def anatomy_of(model: PreTrainedModel) -> Anatomy:
    """The numbers of the model as its configuration states them, so also those before any pruning."""
    config = model.config
    layers = len(layer_parts(model))
    heads = int(config.num_attention_heads)
    return Anatomy(layers, heads, int(config.intermediate_size), int(config.hidden_size) // heads)


def layer_parts(model: PreTrainedModel) -> tuple[LayerParts, ...]:
    """The modules of every layer, first layer first."""
    try:
        return tuple(_parts(layer) for layer in _base(model).encoder.layer)
    except AttributeError:
        raise _unsupported(model) from None


def last_attention_block(model: PreTrainedModel) -> nn.Module:
    """What the last layer does with the states that attention found and those it started from."""
    try:
        block = _base(model).encoder.layer[-1].attention.output
    except AttributeError:
        raise _unsupported(model) from None
    assert isinstance(block, nn.Module)
    return block


def word_embeddings(model: PreTrainedModel) -> nn.Embedding:
    """The word-embedding module, whose output the adversary perturbs."""
    try:
        embeddings = _base(model).embeddings.word_embeddings
    except AttributeError:
        raise _unsupported(model) from None
    if not isinstance(embeddings, nn.Embedding):
        raise _unsupported(model)
    return embeddings


def embed_tokens(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    """What the first layer is given."""
    names = ("input_ids", "token_type_ids")
    embedded: Tensor = _base(model).embeddings(**{name: batch[name] for name in names if name in batch})
    return embedded


def classify(model: PreTrainedModel, states: Tensor) -> Tensor:
    """The logits of a classifier of the BERT or RoBERTa family, which reads the first position of the last layer."""
    pooler = getattr(_base(model), "pooler", None)
    classifier: Any = model.classifier
    logits: Tensor = classifier(states if pooler is None else pooler(states))
    return logits


def counts_positions_from_the_left(model: PreTrainedModel) -> bool:
    """Whether the position of a token is its place in the text; RoBERTa counts the tokens that are no padding."""
    return _base(model).embeddings.position_embeddings.padding_idx is None


def positions(model: PreTrainedModel) -> int:
    """How many tokens the model can read."""
    try:
        embeddings = _base(model).embeddings.position_embeddings
        # RoBERTa counts positions from padding_idx + 1.
        return int(embeddings.num_embeddings - (0 if embeddings.padding_idx is None else embeddings.padding_idx + 1))
    except AttributeError:
        raise _unsupported(model) from None


def check_max_length(model: PreTrainedModel, max_length: int, setting: str = "task.max_length") -> None:
    """Refuse texts longer than the model has positions for."""
    room = positions(model)
    if max_length > room:
        raise ConfigError(
            f"{setting} is {max_length}, but the model has positions for {room} tokens; lower it to {room} or less"
        )


def _base(model: PreTrainedModel) -> Any:  # noqa: ANN401 - families share no class
    return model.base_model


def _parts(layer: Any) -> LayerParts:  # noqa: ANN401 - families share no class
    attention = layer.attention.self
    return LayerParts(
        attention=attention,
        query=attention.query,
        key=attention.key,
        value=attention.value,
        attention_output=layer.attention.output.dense,
        attention_norm=layer.attention.output.LayerNorm,
        intermediate=layer.intermediate.dense,
        activation=layer.intermediate.intermediate_act_fn,
        output=layer.output.dense,
        output_norm=layer.output.LayerNorm,
    )


def _unsupported(model: PreTrainedModel) -> ResourceError:
    kind = getattr(model.config, "model_type", type(model).__name__)
    return ResourceError(f"models of type {kind!r} cannot be pruned here; take one of the families {FAMILIES}")
