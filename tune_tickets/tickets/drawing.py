"""Drawing a ticket: the coefficients of smallest magnitude are cut (EarlyRobust section 3.3.2)."""

import math
from typing import Literal

import torch
from torch import Tensor

from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.tickets.mask import StructuredMask

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

    Every layer keeps at least one head; it may lose all its neurons. Of equal magnitudes the one with the lower (layer,
    index) is cut first.
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
    """Scores of heads and neurons from a seed; `draw` turns them into a random ticket of given ratios."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(layers, heads, generator=generator), torch.rand(layers, neurons, generator=generator)


def cut_count(ratio: float, total: int) -> int:
    """ceil(ratio x total), where products a rounding error above a whole number count as that number."""
    return math.ceil(round(ratio * total, 6))


def _keep(scores: Tensor, ratio: float, scope: Scope, floor: int, kind: str) -> Tensor:
    magnitudes = scores.detach().cpu().abs()
    if not torch.isfinite(magnitudes).all():
        raise TicketsError(f"the coefficients of {kind} are not finite: the search diverged; lower its learning rates")
    # Groups compete within themselves: one group is the whole model, or each layer is a group of its own.
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
    # Cutting in ascending order and sparing a layer's last head is the same as sparing its best head from the start.
    spared = _best(magnitudes, (floor,) * layers)
    order = magnitudes.flatten().argsort(stable=True)
    cut = order[~spared.flatten()[order]][:count]
    kept = torch.ones(layers * width, dtype=torch.bool)
    kept[cut] = False
    return kept.view(layers, width)


def _best(scores: Tensor, counts: tuple[int, ...]) -> Tensor:
    """In each layer the `count` entries of highest score; ties go to the higher index, as it is cut last."""
    rank = scores.argsort(dim=1, stable=True).argsort(dim=1)
    return rank >= scores.shape[1] - torch.tensor(counts).unsqueeze(1)
