"""Surgery: cut heads and neurons out of a model, put zeros in their place again, replace weights by random ones."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from tune_tickets.errors import TicketsError
from tune_tickets.models.backbone import initialise, quiet_transformers
from tune_tickets.models.families import family_of
from tune_tickets.models.families.base import Anatomy
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask


@dataclass(frozen=True)
class ParameterCount:
    """Parameters without embedding matrices, as the papers count them, and in total."""

    without_embeddings: int
    total: int


def prune(model: PreTrainedModel, mask: StructuredMask) -> None:
    """Remove the heads and neurons that the mask does not keep from a dense model, in place.

    Layers may end with different numbers of heads, and without any neurons.

    Raises:
        TicketsError: The mask does not fit, leaves a layer without heads, or the model is not dense.
    """
    family = family_of(model)
    anatomy = family.anatomy(model)
    _check_fit(model, anatomy, mask)
    for index, layer in enumerate(family.layers(model)):
        family.cut(layer, mask.heads[index], mask.neurons[index], anatomy.head_size)


def _check_fit(model: PreTrainedModel, anatomy: Anatomy, mask: StructuredMask) -> None:
    expected = (anatomy.layers, anatomy.heads), (anatomy.layers, anatomy.neurons)
    if (tuple(mask.heads.shape), tuple(mask.neurons.shape)) != expected:
        raise TicketsError(
            f"the mask has heads {list(mask.heads.shape)} and neurons {list(mask.neurons.shape)}, the model "
            f"{list(expected[0])} and {list(expected[1])}: it was drawn from another backbone"
        )
    if not bool(mask.heads.any(dim=1).all()):
        raise TicketsError("the mask leaves a layer without heads, such a model cannot be trained; keep one per layer")
    if model.config.model_type in family_of(model).uncut_types and not bool(mask.heads.all()):
        raise TicketsError(
            f"heads of models of type {model.config.model_type!r} cannot be cut; take a method that masks single "
            "weights, or another model"
        )
    widths = (anatomy.heads * anatomy.head_size, anatomy.neurons)
    for linears, width in zip(family_of(model).output_projections(model), widths, strict=True):
        if any(linear.in_features != width for linear in linears.values()):
            raise TicketsError("the model has been pruned already; load the backbone again before pruning it")


def count_parameters(model: nn.Module) -> ParameterCount:
    """Count the parameters of a model, pruned or not."""
    total = sum(parameter.numel() for parameter in model.parameters())
    embeddings = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Embedding))
    return ParameterCount(total - embeddings, total)


def relative_flops(model: PreTrainedModel, tokens: int) -> float:
    """Forward FLOPs of the layers of a pruned model in % of the dense model's, for a text of `tokens` tokens.

    Single weights that are zero save nothing here, as on hardware without sparse kernels.
    """
    family = family_of(model)
    anatomy = family.anatomy(model)
    left = dense = 0
    for layer in family.layers(model):
        weights = [0, 0]
        attention = 0
        for part in family.projections(layer):
            now, other = part.linear.weight.shape[part.dim], part.linear.weight.shape[1 - part.dim]
            before = part.blocks * (anatomy.heads * anatomy.head_size if part.units == "heads" else anatomy.neurons)
            weights = [weights[0] + now * other, weights[1] + before * other]
            attention = now if part.units == "heads" and part.dim == 1 else attention
        left += layer_flops(weights[0], attention, tokens)
        dense += layer_flops(weights[1], anatomy.heads * anatomy.head_size, tokens)
    return 100.0 * left / dense


def layer_flops(weights: int, attention: int, tokens: int) -> int:
    """Forward FLOPs of a layer with so many weights, whose heads are `attention` wide together."""
    mixing = 2 * tokens * attention  # the scores, and the values weighted by them
    return 2 * tokens * (weights + mixing)  # a multiplication and an addition each


def regrow(model: PreTrainedModel, mask: StructuredMask) -> PreTrainedModel:
    """Return the dense model that answers as the pruned one does; any software for dense models can load it.

    Everything that was cut is zero, biases too. A cut head mixes values that are all 0. The columns that read cut heads
    and neurons are 0 as well, whatever the activation makes of 0.
    """
    family = family_of(model)
    size = family.anatomy(model).head_size
    # Building draws random weights, which are overwritten. The caller's random numbers stay untouched.
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        dense: PreTrainedModel = AutoModelForSequenceClassification.from_config(model.config)  # type: ignore[no-untyped-call]
    family.attach_pooling(dense)
    full, small = dense.state_dict(), model.state_dict()
    dense.load_state_dict(full | {name: part for name, part in small.items() if part.shape == full[name].shape})
    for index, (wide, narrow) in enumerate(zip(family.layers(dense), family.layers(model), strict=True)):
        for to, part in zip(family.projections(wide), family.projections(narrow), strict=True):
            kept = mask.heads[index] if part.units == "heads" else mask.neurons[index]
            _put_back(to.linear, part.linear, part.entries(kept, size).nonzero().flatten(), part.dim)
    return dense.eval()  # type: ignore[no-untyped-call, no-any-return]


@torch.no_grad()
def _put_back(wide: nn.Linear, narrow: nn.Linear, index: Tensor, dim: int) -> None:
    wide.weight.zero_().index_copy_(dim, index, narrow.weight.cpu())
    if dim == 0 and narrow.bias is not None:
        wide.bias.zero_().index_copy_(0, index, narrow.bias.cpu())


def reinitialise(network: PreTrainedModel, seed: int) -> None:
    """Give every parameter, embeddings too, a value as before pre-training."""
    initialise(network, [name for name, _ in network.named_parameters()], seed)


def reinitialise_outside(network: PreTrainedModel, mask: StructuredMask | UnstructuredMask, seed: int) -> None:
    """Give such values to the weights that are not in the ticket; all others keep their bits."""
    outside = _cut_entries(network, mask)
    before = {name: network.get_parameter(name).detach().clone() for name in outside}
    initialise(network, outside, seed)
    with torch.no_grad():
        for name, cut in outside.items():
            parameter = network.get_parameter(name)
            parameter.copy_(torch.where(cut, parameter, before[name]))


def _cut_entries(network: PreTrainedModel, mask: StructuredMask | UnstructuredMask) -> dict[str, Tensor]:
    """For each parameter that is only partly in the ticket: which of its entries are not."""
    if isinstance(mask, UnstructuredMask):
        return {name: ~kept for name, kept in mask.kept.items()}
    names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}
    family = family_of(network)
    head_size = family.anatomy(network).head_size
    cut: dict[str, Tensor] = {}
    for index, layer in enumerate(family.layers(network)):
        for part in family.projections(layer):
            kept = mask.heads[index] if part.units == "heads" else mask.neurons[index]
            gone = ~part.entries(kept, head_size)
            cut[names[part.linear.weight]] = gone.unsqueeze(1 - part.dim)
            if part.dim == 0 and part.linear.bias is not None:
                cut[names[part.linear.bias]] = gone
    return cut
