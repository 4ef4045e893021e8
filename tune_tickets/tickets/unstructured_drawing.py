"""Drawing unstructured tickets: one ranking of scores, over all matrices or within each (RobustT section 3.3)."""

from collections.abc import Mapping
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.errors import ConfigError, StoreError, TicketsError
from tune_tickets.tickets.drawing import cut_count
from tune_tickets.tickets.unstructured import UnstructuredMask

Scores = Mapping[str, Tensor]
"""A score per weight, by the name of its matrix: log alpha itself, as sigmoid(log alpha) saturates into ties."""

Ranking = Literal["global", "matrix"]


def draw_unstructured(
    scores: Scores, sparsity: float, ranking: Ranking = "global", within: UnstructuredMask | None = None
) -> UnstructuredMask:
    """Cut exactly ceil(sparsity x N) weights of lowest score, over all matrices in one shot or within each matrix.

    Of equal scores the first by (name in alphabetical order, index) is cut first; weights outside `within` go before
    all others. No matrix has a floor.
    """
    if not 0 <= sparsity < 1:
        raise ConfigError(f"a sparsity lies in [0, 1), not at {sparsity:g}")
    names = sorted(scores)
    flat = {name: _ranked(name, scores[name], within) for name in names}
    if ranking == "matrix":
        kept = {name: keep_highest(flat[name], sparsity) for name in names}
    else:
        parts = torch.split(keep_highest(torch.cat(list(flat.values())), sparsity), [len(flat[name]) for name in names])
        kept = dict(zip(names, parts, strict=True))
    return UnstructuredMask({name: kept[name].view(scores[name].shape) for name in scores})


def keep_highest(scores: Tensor, sparsity: float) -> Tensor:
    """All but the ceil(sparsity x N) lowest of a flat tensor of scores, as bools where the scores are."""
    count = cut_count(sparsity, len(scores))
    if count == 0:
        return torch.ones_like(scores, dtype=torch.bool)
    # A selection, not a sort: a base model has 85 million scores.
    threshold = scores.kthvalue(count).values
    ties = scores == threshold
    return (scores > threshold) | (ties & (ties.cumsum(0) > count - (scores < threshold).sum()))


def magnitudes(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Scores by magnitude: what IMP prunes by, and the ablation of RobustT's learnt masks."""
    return {name: weight.detach().abs().cpu() for name, weight in weights.items()}


def random_scores(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Tensor]:
    """Scores from a seed; drawn globally they give a ticket whose matrices are about equally sparse."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.rand(shapes[name], generator=generator) for name in sorted(shapes)}


def shuffled(like: UnstructuredMask, seed: int) -> UnstructuredMask:
    """The mask with its entries shuffled within each matrix: the random ticket of the same layer-wise sparsity."""
    generator = torch.Generator().manual_seed(seed)
    mixed = {}
    for name in sorted(like.kept):
        kept = like.kept[name]
        mixed[name] = kept.flatten()[torch.randperm(kept.numel(), generator=generator)].view(kept.shape)
    return UnstructuredMask({name: mixed[name] for name in like.kept})


def scores_to_bytes(scores: Scores) -> bytes:
    """Scores as a safetensors file."""
    return save({name: score.contiguous() for name, score in scores.items()})


def scores_from_bytes(content: bytes) -> dict[str, Tensor]:
    """The scores written by `scores_to_bytes`."""
    try:
        return load(content)
    except SafetensorError as error:
        raise StoreError(f"these are not stored scores ({error}); delete them and search again") from None


def _ranked(name: str, scores: Tensor, within: UnstructuredMask | None) -> Tensor:
    flat = scores.detach().cpu().flatten()
    if not torch.isfinite(flat).all():
        raise TicketsError(f"the scores of {name} are not finite: the search diverged; lower its learning rate")
    return flat if within is None else flat.masked_fill(~within.kept[name].flatten(), -torch.inf)
