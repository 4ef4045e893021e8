"""Random weights in the place of pre-trained ones, for the ablations of a ticket's initialisation and structure."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.models.anatomy import anatomy_of, layer_parts
from tune_tickets.models.backbone import initialise
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask


def reinitialise(network: PreTrainedModel, seed: int) -> None:
    """Give every parameter, embeddings too, a value as before pre-training."""
    initialise(network, [name for name, _ in network.named_parameters()], seed)


def reinitialise_outside(network: PreTrainedModel, mask: StructuredMask | UnstructuredMask, seed: int) -> None:
    """Give the weights that are not in the ticket such values; all others stay as they are, bit for bit."""
    outside = _cut_entries(network, mask)
    before = {name: network.get_parameter(name).detach().clone() for name in outside}
    initialise(network, outside, seed)
    with torch.no_grad():
        for name, cut in outside.items():
            parameter = network.get_parameter(name)
            parameter.copy_(torch.where(cut, parameter, before[name]))


def _cut_entries(network: PreTrainedModel, mask: StructuredMask | UnstructuredMask) -> dict[str, Tensor]:
    """Per parameter that the ticket has only a part of: which of its entries are not in the ticket."""
    if isinstance(mask, UnstructuredMask):
        return {name: ~kept for name, kept in mask.kept.items()}
    names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}
    head_size = anatomy_of(network).head_size
    cut: dict[str, Tensor] = {}
    for layer, parts in enumerate(layer_parts(network)):
        heads, neurons = (~mask.heads[layer]).repeat_interleave(head_size), ~mask.neurons[layer]
        rows = ((parts.query, heads), (parts.key, heads), (parts.value, heads), (parts.intermediate, neurons))
        for linear, gone in rows:
            cut |= {names[linear.weight]: gone.unsqueeze(1), names[linear.bias]: gone}
        columns = ((parts.attention_output, heads), (parts.output, neurons))
        cut |= {names[linear.weight]: gone.unsqueeze(0) for linear, gone in columns}
    return cut
