"""What a mask leaves of the heads and the MLP of every layer: the cells of the papers' sparsity patterns."""

import re
from typing import NamedTuple

import torch
from torch import Tensor

from tune_tickets.errors import StoreError
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask

_MATRIX = re.compile(r"layer\.(\d+)\.(attention\.self\.(?:query|key|value)|attention\.output\.dense|.*dense)\.weight$")


class Survival(NamedTuple):
    """Shares that are kept, 0 to 1."""

    heads: Tensor
    """[layers, heads]."""
    mlp: Tensor
    """[layers]."""


def survival(mask: StructuredMask | UnstructuredMask, heads: int | None = None) -> Survival:
    """Of a structured mask the heads and the share of neurons; of single weights the shares of those that belong there.

    A head owns its rows of query, key and value and its columns of the attention output. Without their number all heads
    of a layer count as one.
    """
    if isinstance(mask, StructuredMask):
        return Survival(mask.heads.double(), mask.neurons.double().mean(dim=1))
    attention: dict[int, list[Tensor]] = {}
    mlp: dict[int, list[Tensor]] = {}
    for name, kept in mask.kept.items():
        found = _MATRIX.search(name)
        if found is None:  # the pooler and the classifier stand in no layer
            continue
        layer, part = int(found[1]), found[2]
        if part.startswith("attention"):
            rows = kept if "self" in part else kept.T
            attention.setdefault(layer, []).append(rows.reshape(heads or 1, -1).double())
        else:
            mlp.setdefault(layer, []).append(kept.flatten().double())
    if not attention or attention.keys() != mlp.keys():
        raise StoreError("a mask of single weights has no layers that are known by their names")
    layers = sorted(attention)
    return Survival(
        torch.stack([torch.cat(attention[layer], dim=1).mean(dim=1) for layer in layers]),
        torch.stack([torch.cat(mlp[layer]).mean() for layer in layers]),
    )
