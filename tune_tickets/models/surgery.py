"""Surgery: a drawn ticket made physical by slicing the linear layers, so that it is smaller and faster for good."""

from dataclasses import dataclass

from torch import Tensor, nn
from transformers import PreTrainedModel

from tune_tickets.errors import TicketsError
from tune_tickets.models.anatomy import Anatomy, LayerParts, anatomy_of, layer_parts
from tune_tickets.tickets.mask import StructuredMask


@dataclass(frozen=True)
class ParameterCount:
    """Parameters without embedding matrices, as the papers count them, and in all."""

    without_embeddings: int
    total: int


def prune(model: PreTrainedModel, mask: StructuredMask) -> None:
    """Remove the heads and neurons that the mask does not keep from a dense model, in place.

    Layers may end with different numbers of heads, and with no neurons at all.
    """
    anatomy = anatomy_of(model)
    _check_fit(model, anatomy, mask)
    for layer, parts in enumerate(layer_parts(model)):
        _remove_heads(parts, mask.heads[layer], anatomy.head_size)
        _remove_neurons(parts, mask.neurons[layer])


def count_parameters(model: nn.Module) -> ParameterCount:
    """Count the parameters of a model, pruned or not."""
    total = sum(parameter.numel() for parameter in model.parameters())
    embeddings = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Embedding))
    return ParameterCount(total - embeddings, total)


def _remove_heads(parts: LayerParts, kept: Tensor, head_size: int) -> None:
    columns = kept.repeat_interleave(head_size).nonzero().flatten()
    for linear in (parts.query, parts.key, parts.value):
        _keep_rows(linear, columns)
    _keep_columns(parts.attention_output, columns)
    parts.attention.num_attention_heads = int(kept.sum())
    parts.attention.all_head_size = len(columns)


def _remove_neurons(parts: LayerParts, kept: Tensor) -> None:
    neurons = kept.nonzero().flatten()
    _keep_rows(parts.intermediate, neurons)
    _keep_columns(parts.output, neurons)


def _keep_rows(linear: nn.Linear, rows: Tensor) -> None:
    linear.weight = _sliced(linear.weight, rows, dim=0)
    if linear.bias is not None:
        linear.bias = _sliced(linear.bias, rows, dim=0)
    linear.out_features = len(rows)


def _keep_columns(linear: nn.Linear, columns: Tensor) -> None:
    linear.weight = _sliced(linear.weight, columns, dim=1)
    linear.in_features = len(columns)


def _sliced(parameter: Tensor, index: Tensor, dim: int) -> nn.Parameter:
    sliced = parameter.detach().index_select(dim, index.to(parameter.device))
    return nn.Parameter(sliced, requires_grad=parameter.requires_grad)


def _check_fit(model: PreTrainedModel, anatomy: Anatomy, mask: StructuredMask) -> None:
    expected = (anatomy.layers, anatomy.heads), (anatomy.layers, anatomy.neurons)
    if (tuple(mask.heads.shape), tuple(mask.neurons.shape)) != expected:
        raise TicketsError(
            f"the mask has heads {list(mask.heads.shape)} and neurons {list(mask.neurons.shape)}, the model "
            f"{list(expected[0])} and {list(expected[1])}: it was drawn from another backbone"
        )
    if not bool(mask.heads.any(dim=1).all()):
        raise TicketsError("the mask leaves a layer without heads, such a model cannot be trained; keep one per layer")
    for parts in layer_parts(model):
        if parts.query.out_features != anatomy.heads * anatomy.head_size or parts.output.in_features != anatomy.neurons:
            raise TicketsError("the model has been pruned already; load the backbone afresh before pruning it")
