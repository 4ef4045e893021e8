"""Drawing a ticket: the coefficients of smallest magnitude are cut (EarlyRobust section 3.3.2)."""

import math
from collections.abc import Mapping
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.errors import ConfigError, StoreError, TicketsError
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import UnstructuredMask

Scope = Literal["global", "layer"]


def draw(
    head_scores: Tensor,
    neuron_scores: Tensor,
    *,
    heads: float,
    neurons: float,
    heads_scope: Scope = "global",
    neurons_scope: Scope = "global",
) -> StructuredMask:
    """Cut exactly ceil(ratio x N) heads and neurons, over the whole model or within each layer.

    Every layer keeps at least one head; it may lose all its neurons. Of equal magnitudes the lower (layer, index) is
    cut first.

    Raises:
        ConfigError: A ratio would cut the last head of a layer.
        TicketsError: A score is not finite.
    """
    return StructuredMask(
        _keep(head_scores, heads, heads_scope, floor=1, kind="heads"),
        _keep(neuron_scores, neurons, neurons_scope, floor=0, kind="neurons"),
    )


def draw_random(like: StructuredMask, seed: int) -> StructuredMask:
    """A mask that keeps as many heads and neurons per layer as `like` does, chosen at random."""
    layers, heads = like.heads.shape
    head_scores, neuron_scores = random_scores(layers, heads, like.neurons.shape[1], seed)
    return StructuredMask(_best(head_scores, like.heads_kept()), _best(neuron_scores, like.neurons_kept()))


def random_scores(layers: int, heads: int, neurons: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random scores of heads and neurons from a seed; `draw` turns them into a random ticket."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(layers, heads, generator=generator), torch.rand(layers, neurons, generator=generator)


def cut_count(ratio: float, total: int) -> int:
    """ceil(ratio x total), after rounding errors of the product are removed."""
    return math.ceil(round(ratio * total, 6))


def _keep(scores: Tensor, ratio: float, scope: Scope, floor: int, kind: str) -> Tensor:
    magnitudes = scores.detach().cpu().abs()
    if not torch.isfinite(magnitudes).all():
        raise TicketsError(f"the coefficients of {kind} are not finite: the search diverged; lower its learning rates")
    # Scores are compared within a group: the whole model, or each layer.
    groups = [magnitudes] if scope == "global" else [row.unsqueeze(0) for row in magnitudes]
    return torch.cat([_keep_in_group(group, ratio, floor, kind) for group in groups])


def _keep_in_group(magnitudes: Tensor, ratio: float, floor: int, kind: str) -> Tensor:
    layers, width = magnitudes.shape
    count, room = cut_count(ratio, magnitudes.numel()), layers * (width - floor)
    if count > room:
        raise ConfigError(
            f"drawing.{kind} = {ratio:g} would cut {count} of {layers * width} {kind}, but only {room} can go: "
            f"every layer keeps at least one; lower drawing.{kind}"
        )
    # To cut in ascending order but keep the last head of a layer is to keep its best head from the start.
    spared = _best(magnitudes, (floor,) * layers)
    order = magnitudes.flatten().argsort(stable=True)
    cut = order[~spared.flatten()[order]][:count]
    kept = torch.ones(layers * width, dtype=torch.bool)
    kept[cut] = False
    return kept.view(layers, width)


def _best(scores: Tensor, counts: tuple[int, ...]) -> Tensor:
    """The `count` entries of highest score in each layer. Of equal scores the higher index is kept."""
    rank = scores.argsort(dim=1, stable=True).argsort(dim=1)
    return rank >= scores.shape[1] - torch.tensor(counts).unsqueeze(1)


Scores = Mapping[str, Tensor]
"""A score per weight, by the name of its matrix: log alpha itself, because sigmoid(log alpha) saturates into ties."""

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
    """All but the ceil(sparsity x N) lowest of a flat tensor of scores, as bools on the same device."""
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


def random_weight_scores(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Tensor]:
    """Random scores from a seed. Drawn globally they give a ticket whose matrices are about equally sparse."""
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
