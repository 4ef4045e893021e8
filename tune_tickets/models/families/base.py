"""What a model family must say: where the parts of its models are and how they are cut, pooled and classified.

Only the families know attribute names of transformers models. Methods take the model, or one of its layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from tune_tickets.errors import ResourceError
from tune_tickets.tickets.survival import Place, Units

Batch = dict[str, Tensor]
Pool = Callable[[Tensor, Tensor], Tensor]
"""From states [rows, tokens, width] and the attention mask [rows, tokens] to one vector per text [rows, width]."""
POOLING = "tune_tickets_pooling"
"""Configurations of mean-pooled models have the value `mean` under this name, also in ticket files and exports."""
MEAN_POOLED = "mean_pooled_"
"""Model types of exported transformers folders with mean pooling start with it. Plain transformers does not know such a
type. So it asks for trust_remote_code, and never reads the weights as those of a model that reads the first token."""


@dataclass(frozen=True)
class Anatomy:
    """The sizes of a dense encoder; `heads` and `neurons` are per layer."""

    layers: int
    heads: int
    neurons: int
    head_size: int


@dataclass(frozen=True)
class Projection:
    """A linear module of a layer whose rows (dim 0) or columns (dim 1) belong to heads or to neurons.

    `blocks` says how often all units are repeated: 3 for a fused query-key-value projection, 2 for the rows j and j + N
    of a gated feed-forward part.
    """

    linear: nn.Linear
    units: Units
    dim: int
    blocks: int = 1

    def entries(self, kept: Tensor, head_size: int) -> Tensor:
        """Which rows or columns belong to the units that are kept, as bools."""
        return kept.repeat_interleave(head_size if self.units == "heads" else 1).repeat(self.blocks)

    def keep(self, kept: Tensor, head_size: int) -> None:
        """Remove the rows or columns of all other units."""
        index, linear = self.entries(kept, head_size).nonzero().flatten(), self.linear
        linear.weight = _sliced(linear.weight, index, self.dim)
        if self.dim == 1:
            linear.in_features = len(index)
            return
        if linear.bias is not None:
            linear.bias = _sliced(linear.bias, index, 0)
        linear.out_features = len(index)


@dataclass(frozen=True)
class PostNormLayer:
    """The parts of a layer as `models.lean` computes it: attention, norm, feed-forward, norm."""

    heads: int
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_output: nn.Linear
    attention_norm: nn.LayerNorm
    intermediate: nn.Linear
    activation: Callable[[Tensor], Tensor]
    output: nn.Linear
    output_norm: nn.LayerNorm


@dataclass(frozen=True)
class Lean:
    """What `models.lean` needs to compute a model itself."""

    layers: tuple[PostNormLayer, ...]
    embed: Callable[[Batch], Tensor]
    """From tokens to the input of the first layer."""
    counts_from_left: bool
    """True if the position of a token is its place in the text, False if it depends on other tokens."""


class Family(ABC):
    """A model family. A new one must write the three abstract methods; it overrides what else is different."""

    model_types: ClassVar[tuple[str, ...]]
    """The values of `config.model_type` that it serves."""
    uncut_types: ClassVar[tuple[str, ...]] = ()
    """Types among them whose heads cannot be cut. Masks of single weights work."""
    shape: ClassVar[tuple[str, ...]] = (
        "model_type", "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size"
    )  # fmt: skip
    """Keys of config.json. Models that agree in them have weights of the same shapes."""

    @abstractmethod
    def layers(self, model: PreTrainedModel) -> Sequence[nn.Module]:
        """The layers, first layer first."""

    @abstractmethod
    def projections(self, layer: Any) -> tuple[Projection, ...]:  # noqa: ANN401 - families share no class
        """All linear modules that heads or neurons have a part in.

        Exactly one with dim 1 reads the heads and one reads the neurons. Gates act on the inputs of these two.
        """

    @abstractmethod
    def keep_heads(self, layer: Any, kept: Tensor, head_size: int) -> None:  # noqa: ANN401 - families share no class
        """Set attributes that depend on the number of heads, after the projections of a layer were cut."""

    def cut(self, layer: nn.Module, heads: Tensor, neurons: Tensor, head_size: int) -> None:
        """Remove the heads and neurons of a dense layer that the two bool vectors do not keep, in place."""
        for projection in self.projections(layer):
            projection.keep(heads if projection.units == "heads" else neurons, head_size)
        self.keep_heads(layer, heads, head_size)

    def place(self, weight: str) -> Place | None:
        """Where a weight matrix stands, by its name in the state dict; None if it is in no layer."""
        return None

    def anatomy(self, model: PreTrainedModel) -> Anatomy:
        """The sizes that the configuration states, so those before any pruning."""
        config = model.config
        heads = int(config.num_attention_heads)
        return Anatomy(len(self.layers(model)), heads, int(config.intermediate_size), int(config.hidden_size) // heads)

    def output_projections(self, model: PreTrainedModel) -> tuple[dict[str, nn.Linear], dict[str, nn.Linear]]:
        """The linear modules whose inputs are heads and neurons, by the name of their weight, first layer first."""
        found = [part for layer in self.layers(model) for part in self.projections(layer) if part.dim == 1]
        heads, neurons = ([part.linear for part in found if part.units == units] for units in ("heads", "neurons"))
        return _by_name(model, heads), _by_name(model, neurons)

    def weight_matrices(self, model: PreTrainedModel) -> dict[str, nn.Linear]:
        """The linear modules that RobustT and IMP mask, by the name of their weight: all layers, then the pooler.

        A dense layer inside the classification head is not pre-trained. It is left out like every classifier.
        """
        return _by_name(model, [*self._of_layers(model), *_linears(self.pooler(model))])

    def matrices_with_classifier(self, model: PreTrainedModel, pooler: bool) -> dict[str, nn.Linear]:
        """The linear modules that SRNets mask: all layers and the classifier, with `pooler` also what is between."""
        *between, last = [*_linears(self.pooler(model)), *_linears(self.classifier(model))]
        return _by_name(model, [*self._of_layers(model), *(between if pooler else []), last])

    def _of_layers(self, model: PreTrainedModel) -> list[nn.Linear]:
        return [part.linear for layer in self.layers(model) for part in self.projections(layer)]

    def encoder_weights(self, model: PreTrainedModel) -> set[str]:
        """The names of the parameters that a checkpoint must have: the whole encoder, without the pooler."""
        pooler = self.pooler(model)
        new = set() if pooler is None else {id(parameter) for parameter in pooler.parameters()}
        own = {id(parameter) for parameter in model.base_model.parameters()} - new
        return {name for name, parameter in model.named_parameters() if id(parameter) in own}

    def word_embeddings(self, model: PreTrainedModel) -> nn.Embedding:
        """The module whose output adversaries perturb."""
        embeddings = model.get_input_embeddings()
        if not isinstance(embeddings, nn.Embedding):
            raise ResourceError(f"models of type {model.config.model_type!r} have no table of word embeddings")
        return embeddings

    def positions(self, model: PreTrainedModel) -> int | None:
        """How many tokens the model can read; None if there is no limit."""
        return int(model.config.max_position_embeddings)

    def pooler(self, model: PreTrainedModel) -> nn.Module | None:
        """The pre-trained part between the last layer and the classifier, if there is one."""
        return None

    def classifier(self, model: PreTrainedModel) -> nn.Module | None:
        """The new part that ends in the scores per class; None if the model is no classifier."""
        classifier = getattr(model, "classifier", None)
        return classifier if isinstance(classifier, nn.Module) else None

    def pooling(self, config: PretrainedConfig) -> Pool | None:
        """How the states of the last layer become one vector per text; None: as the model itself does it.

        This is the only place. Training, attacks, exports and loaded tickets use it through `attach_pooling`,
        `text_vectors` and `classify`. The configuration has what `model.pooling` was resolved to.
        """
        return mean_of_tokens if getattr(config, POOLING, "first") == "mean" else None

    def attach_pooling(self, model: PreTrainedModel) -> None:
        """Make the forward pass of a new classifier use `pooling`.

        With the mean of all tokens the pooler is removed. It was trained for the first token, and weights that nothing
        uses would count as parameters.
        """
        pool = self.pooling(model.config)
        if pool is None:
            return
        if pool is mean_of_tokens:
            _drop(model, self.pooler(model))
        model.base_model.register_forward_hook(PooledForward(pool, self.pooler(model)), with_kwargs=True)

    def text_vectors(self, model: PreTrainedModel, states: Tensor, mask: Tensor) -> Tensor:
        """One vector per text from the states of the last layer: what pooler and classifier read."""
        pool = self.pooling(model.config)
        return states[:, 0] if pool is None else pool(states, mask)

    def classify(self, model: PreTrainedModel, states: Tensor, mask: Tensor) -> Tensor:
        """The scores per class from the states of the last layer, of which the classifier reads the first token."""
        pooler, classifier = self.pooler(model), self.classifier(model)
        states = self.text_vectors(model, states, mask).unsqueeze(1)
        assert classifier is not None
        logits: Tensor = classifier(states if pooler is None else pooler(states))
        return logits

    def lean(self, model: PreTrainedModel) -> Lean | None:
        """How attacks may compute the model with less work; None: they use its own forward pass."""
        return None

    def last_attention_block(self, model: PreTrainedModel) -> nn.Module | None:
        """The part of the last layer that follows its attention, if the classifier reads only the first token."""
        return None

    def masked_lm_head(self, model: PreTrainedModel) -> nn.Module:
        """The part of a masked language model that turns states into a score per token of the vocabulary."""
        raise ResourceError(f"models of type {model.config.model_type!r} have no masked-LM head that is known here")

    def decoder_bias(self, model: PreTrainedModel) -> nn.Parameter:
        """The part of these scores that does not depend on the text."""
        bias = getattr(model.get_output_embeddings(), "bias", None)  # type: ignore[no-untyped-call]
        if not isinstance(bias, nn.Parameter):
            raise ResourceError(f"models of type {model.config.model_type!r} have a masked-LM head without bias")
        return bias


def mean_of_tokens(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of the states of all tokens that are not padding."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


class FirstState(nn.Module):
    """A pooler without weights: returns the first state of each text."""

    def forward(self, states: Tensor) -> Tensor:
        """From [rows, tokens, width] to [rows, width]. BigBird picks the first state itself."""
        return states[:, 0] if states.ndim == 3 else states


class PooledForward:
    """A forward hook of an encoder: puts one vector per text where the classifier reads the first token."""

    def __init__(self, pool: Pool, pooler: nn.Module | None) -> None:
        self._pool, self._pooler = pool, pooler

    def __call__(self, model: nn.Module, inputs: Any, named: dict[str, Any], output: Any) -> Any:  # noqa: ANN401
        """Replace the states, and what the pooler made of them."""
        states, mask = output.last_hidden_state, named.get("attention_mask")
        mask = torch.ones(states.shape[:2], device=states.device) if mask is None else mask
        output.last_hidden_state = self._pool(states, mask).unsqueeze(1)
        if self._pooler is not None:
            output.pooler_output = self._pooler(output.last_hidden_state)
        return output


def _drop(model: PreTrainedModel, pooler: nn.Module | None) -> None:
    for name, module in list(model.named_modules()):
        if module is pooler:
            model.set_submodule(name, FirstState())


def _linears(module: nn.Module | None) -> list[nn.Linear]:
    return [] if module is None else [part for part in module.modules() if isinstance(part, nn.Linear)]


def _by_name(model: PreTrainedModel, linears: Sequence[nn.Linear]) -> dict[str, nn.Linear]:
    names = {module: f"{name}.weight" for name, module in model.named_modules()}
    return {names[linear]: linear for linear in linears}


def _sliced(parameter: Tensor, index: Tensor, dim: int) -> nn.Parameter:
    sliced = parameter.detach().index_select(dim, index.to(parameter.device))
    return nn.Parameter(sliced, requires_grad=parameter.requires_grad)
