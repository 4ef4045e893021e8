"""What a mask keeps of the heads and the MLP of every layer: the cells of the papers' sparsity patterns."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tune_tickets.errors import StoreError
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask

Units = Literal["heads", "neurons"]


class Place(NamedTuple):
    """Where a weight matrix stands. Its rows (dim 0) or columns (dim 1) are `blocks` times all units of the layer."""

    layer: int
    units: Units
    dim: int
    blocks: int = 1


class Survival(NamedTuple):
    """Shares that are kept, 0 to 1."""

    heads: Tensor
    """[layers, heads]."""
    mlp: Tensor
    """[layers]."""


def survival(
    mask: StructuredMask | UnstructuredMask, place: Callable[[str], Place | None], heads: int | None = None
) -> Survival:
    """Compute which share of every head and of the MLP of every layer a mask keeps.

    Args:
        mask: A mask of heads and neurons, or of single weights.
        place: Where a matrix stands, by the name of its weight; None for the pooler and the classifier.
        heads: Heads per layer of the dense model; None counts all heads of a layer as one.

    Returns:
        The shares. A head owns its rows of query, key and value and its columns of the attention output.

    Raises:
        StoreError: `place` does not find attention and MLP of the same layers.
    """
    if isinstance(mask, StructuredMask):
        return Survival(mask.heads.double(), mask.neurons.double().mean(dim=1))
    attention: dict[int, list[Tensor]] = {}
    mlp: dict[int, list[Tensor]] = {}
    for name, kept in mask.kept.items():
        found = place(name)
        if found is None:
            continue
        if found.units == "heads":
            rows = (kept if found.dim == 0 else kept.T).reshape(found.blocks, heads or 1, -1)
            attention.setdefault(found.layer, []).append(rows.transpose(0, 1).flatten(1).double())
        else:
            mlp.setdefault(found.layer, []).append(kept.flatten().double())
    if not attention or attention.keys() != mlp.keys():
        raise StoreError("the names in a mask of single weights do not say which layers the weights belong to")
    layers = sorted(attention)
    return Survival(
        torch.stack([torch.cat(attention[layer], dim=1).mean(dim=1) for layer in layers]),
        torch.stack([torch.cat(mlp[layer]).mean() for layer in layers]),
    )
