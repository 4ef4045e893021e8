"""What pictures show of stages in the store: training curves, surviving parts, and distances between masks."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from tune_tickets.config import Settings
from tune_tickets.engine.stage import ExtensibleStage, StageKey, StageResult, digest_of
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError
from tune_tickets.methods.stages import TRAJECTORY_FILE, Retrain
from tune_tickets.models.families.base import Family
from tune_tickets.reports.artifacts import stored_mask
from tune_tickets.reports.pictures.evidence import (
    FINETUNING,
    Curve,
    MaskDistances,
    Matrix,
    Pattern,
    curve_of,
    stage_kind,
)
from tune_tickets.results.objective import ranked
from tune_tickets.results.records import Confirmation, StageRecord, Summary, TrialRecord
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.survival import survival
from tune_tickets.tickets.unstructured import Mask

_PARTS = re.compile(r"(?=, | \+ )")
"""Where the changes and additions begin in the title of a model."""


def curves(
    summary: Summary, settings: Mapping[str, Settings], flat: Mapping[str, Mapping[str, Any]], store: Store
) -> tuple[Curve, ...]:
    """Return one curve per stage with a history. Stopped trials have theirs up to where they stopped."""
    found: dict[tuple[str, str], Curve] = {}
    rounds: dict[tuple[str, str], int] = {}
    for name, title, stages in _asked(summary):
        met: Counter[str] = Counter()
        for kind, stage in _reporting(stages):
            met[kind] += 1
            key = (kind, stage.digest)
            if key in found:
                found[key] = _joined(found[key], name, title)
                continue
            records = _history(stage, settings.get(name), store)
            if records:
                found[key] = Curve(kind, (name,), title, flat.get(name, {}), records)
                rounds[key] = met[kind]
    return tuple(
        replace(curve, title=f"{curve.title}, round {rounds[key]}") if _has_rounds(curve.stage) else curve
        for key, curve in found.items()
    )


def _has_rounds(stage: str) -> bool:
    kind = stage_kind(stage)
    return kind is not None and kind.rounds


def stored_result(stage: StageRecord, settings: Settings | None, store: Store) -> StageResult | None:
    """The result of a stage; None if it is missing or damaged. Of an extensible one, as far as the trial needed it."""
    rule = settings.method.stop_rule() if settings is not None and _is_extensible(stage) else None
    with suppress(StoreError):
        return store.find(stage.name, stage.digest, None if rule is None else digest_of(rule))
    return None


def _is_extensible(stage: StageRecord) -> bool:
    kind = stage_kind(stage.name)
    return kind is not None and issubclass(kind, ExtensibleStage)


def _asked(summary: Summary) -> Iterator[tuple[str, str, tuple[StageRecord, ...]]]:
    for trial in summary.trials:
        yield trial.id, trial.title or trial.method, trial.stages
    for control in summary.controls:
        yield control.name, control.title or control.kind, control.stages


def _reporting(stages: tuple[StageRecord, ...]) -> Iterator[tuple[str, StageRecord]]:
    """The stages with a history to plot. A retraining before the last one is the fine-tuning of what was pruned."""
    retrained = [stage.digest for stage in stages if stage.name == Retrain.name]
    for stage in stages:
        if stage.name == Retrain.name and stage.digest != retrained[-1]:
            yield FINETUNING, stage
        elif curve_of(stage.name) is not None:
            yield stage.name, stage


def _history(stage: StageRecord, settings: Settings | None, store: Store) -> tuple[dict[str, float], ...]:
    result = stored_result(stage, settings, store)
    records: list[dict[str, Any]] = result.history if result is not None else []
    if result is None:
        with suppress(StoreError):
            records = store.history(stage.name, stage.digest)
    return tuple(
        {key: float(value) for key, value in record.items() if isinstance(value, int | float)} for record in records
    )


def _joined(curve: Curve, model: str, title: str) -> Curve:
    if model in curve.models:
        return curve
    return replace(curve, models=(*curve.models, model), title=_in_common(curve.title, title))


def _in_common(first: str, second: str) -> str:
    """The common part of two titles: 'srnets' of 'srnets, PoE pruned' and 'srnets + FreeLB'."""
    parts = zip(_PARTS.split(first), _PARTS.split(second), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], parts)) or "several methods"


MOST_PATTERNS, MOST_SEARCHES, MOST_MINI_EPOCHS = 6, 3, 400
Sources = Sequence[tuple[Summary, Store]]


def best_first(summary: Summary) -> list[TrialRecord]:
    """Return complete trials: the selected one, then by rank, then those that may not win."""
    done = [trial for trial in summary.trials if trial.status == "complete" and trial.outcome is not None]
    order = [summary.selected.trial, *(trial.id for trial in ranked(list(summary.trials)))]
    return sorted(done, key=lambda trial: (order.index(trial.id) if trial.id in order else len(order), trial.number))


def patterns(
    sources: Sources, confirmation: Confirmation | None, heads: int | None, family: Family
) -> tuple[Pattern, ...]:
    """Return the patterns of the winner, of the best ticket of every other method, and of the random controls.

    Tickets that differ only in their seed are averaged. `sources` begins with the search itself, then other seeds.
    """
    summary, store = sources[0]
    found: dict[str, Pattern] = {}
    for trial in best_first(summary):
        if trial.outcome is None or trial.outcome.draw_digest is None or trial.title in found:
            continue
        masks = list(_masks_like(trial, sources))
        if masks:
            found[trial.title] = _pattern(trial.id, trial.title or trial.method, masks, heads, family)
        if len(found) == MOST_PATTERNS - 1:
            break
    # Random tickets like other trials have other counts, so they do not enter the mean.
    winners = [control.outcome for control in summary.controls if control.kind == "random" and control.like is None]
    digests = [outcome.draw_digest for outcome in winners if outcome.draw_digest is not None]
    digests += _confirmed_random(confirmation, store)
    masks = [mask for digest in digests if (mask := stored_mask(digest, store)) is not None]
    if masks:
        found["control"] = _pattern("random control", "as many parts per layer, at random", masks, heads, family)
    return tuple(found.values())


def _masks_like(trial: TrialRecord, sources: Sources) -> Iterator[Mask]:
    """The masks of a trial and of trials with the same settings and other seeds; equal draws count once."""
    wanted = _without_seeds(trial)
    for summary, store in sources:
        seen: set[str] = set()
        for other in summary.trials:
            digest = other.outcome.draw_digest if other.outcome is not None else None
            if digest is None or digest in seen or other.title != trial.title or _without_seeds(other) != wanted:
                continue
            seen.add(digest)
            mask = stored_mask(digest, store)
            if mask is not None:
                yield mask


def _without_seeds(trial: TrialRecord) -> dict[str, object]:
    return {name: value for name, value in trial.params.items() if not name.endswith("seed")}


def _confirmed_random(confirmation: Confirmation | None, store: Store) -> Iterator[str]:
    """The random tickets of a confirmation: the upstream masks of their trainings."""
    for model in confirmation.models if confirmation is not None else ():
        for run in model.runs if model.kind == "random" else ():
            if run.retrain_digest is None:
                continue
            trained = store.recipe(StageKey(Retrain.name, run.retrain_digest, run.retrain_digest))
            if trained is not None and "draw" in trained.upstream:
                yield trained.upstream["draw"].digest


def _pattern(name: str, title: str, masks: Sequence[Mask], heads: int | None, family: Family) -> Pattern:
    shares = [survival(mask, family.place, heads) for mask in masks]
    mean_heads = torch.stack([share.heads for share in shares]).mean(dim=0)
    mean_mlp = torch.stack([share.mlp for share in shares]).mean(dim=0)
    return Pattern(
        name=name,
        title=title,
        tickets=len(masks),
        heads=_matrix(100.0 * mean_heads),
        mlp=tuple((100.0 * mean_mlp).tolist()),
        structured=isinstance(masks[0], StructuredMask),
    )


def distances(summary: Summary, settings: Mapping[str, Settings], store: Store) -> tuple[MaskDistances, ...]:
    """Return the mask distances in the searches of the best trials, as far as any trial has computed them."""
    chosen: dict[str, tuple[TrialRecord, StageResult]] = {}
    longest: dict[str, Trajectory] = {}
    for trial in best_first(summary):
        for stage in filter(_is_extensible, trial.stages):
            result = stored_result(stage, settings.get(trial.id), store)
            if result is None or TRAJECTORY_FILE not in result.files:
                continue
            chosen.setdefault(stage.digest, (trial, result))
            if len(chosen) > MOST_SEARCHES and stage.digest not in list(chosen)[:MOST_SEARCHES]:
                continue
            trajectory = Trajectory.from_bytes(store.read(result, TRAJECTORY_FILE))
            if stage.digest not in longest or len(trajectory) > len(longest[stage.digest]):
                longest[stage.digest] = trajectory
    return tuple(
        _distances(*chosen[digest], longest[digest], settings[chosen[digest][0].id])
        for digest in list(chosen)[:MOST_SEARCHES]
    )


def _distances(trial: TrialRecord, result: StageResult, trajectory: Trajectory, settings: Settings) -> MaskDistances:
    from tune_tickets.methods.bodies.draw import drawer  # imports transformers

    ratios, method = settings.method.ratios, settings.method.model_dump()
    assert ratios is not None  # only such methods leave a trajectory to draw from
    drawn = drawer(ratios)
    stop = int(result.record["stop"])
    shown = min(len(trajectory), max(stop, MOST_MINI_EPOCHS))
    masks = [trajectory.mask(number, drawn) for number in range(1, shown + 1)]
    return MaskDistances(
        model=trial.id,
        title=trial.title,
        heads=_matrix(_between(torch.stack([mask.heads.flatten() for mask in masks]))),
        neurons=_matrix(_between(torch.stack([mask.neurons.flatten() for mask in masks]))),
        stop=stop,
        converged=bool(result.record["converged"]),
        mini_epoch=method["mini_epoch"],
        gamma=method["gamma"],
    )


def _between(masks: Tensor) -> Tensor:
    """Normalised Hamming distances between all rows."""
    kept = masks.double()
    return (kept @ (1 - kept).T + (1 - kept) @ kept.T) / masks.shape[1]


def _matrix(values: Tensor) -> Matrix:
    return tuple(tuple(row) for row in values.tolist())
