"""The curves of a search: what its training stages, and those that follow one, reported, point by point."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

from tune_tickets.config import Settings
from tune_tickets.config.method import EarlyBird
from tune_tickets.errors import StoreError
from tune_tickets.records import StageRecord, Summary
from tune_tickets.reporting.pictures.evidence import Curve
from tune_tickets.trial.stage import StageResult, digest_of
from tune_tickets.trial.store import Store

SEARCHES = ("search", "mlm_search")
FINETUNING = "finetuning"
_REPORTING = ("masks", "srnets_masks", "ood_curve", "imp", "srnets_imp", "retrain", *SEARCHES)
_ROUNDS = ("imp", "srnets_imp")
_PARTS = re.compile(r"(?=, | \+ )")
"""Where what was changed or added begins in the title of a model."""


def curves(
    summary: Summary, settings: Mapping[str, Settings], flat: Mapping[str, Mapping[str, Any]], store: Store
) -> tuple[Curve, ...]:
    """One curve per stage that has a history, whoever asked for it; ended trials have theirs as far as they got."""
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
        replace(curve, title=f"{curve.title}, round {rounds[key]}") if curve.stage in _ROUNDS else curve
        for key, curve in found.items()
    )


def search_result(stage: StageRecord, settings: Settings | None, store: Store) -> StageResult | None:
    """The result of a stage; that of a search is found by how far the trial needed it."""
    goal = None
    if stage.name in SEARCHES and settings is not None and isinstance(settings.method, EarlyBird):
        goal = digest_of(settings.method.stop_rule())
    with suppress(StoreError):  # damaged: as if it were not there
        return store.find(stage.name, stage.digest, goal)
    return None


def _asked(summary: Summary) -> Iterator[tuple[str, str, tuple[StageRecord, ...]]]:
    for trial in summary.trials:
        yield trial.id, trial.title or trial.method, trial.stages
    for control in summary.controls:
        yield control.name, control.title or control.kind, control.stages


def _reporting(stages: tuple[StageRecord, ...]) -> Iterator[tuple[str, StageRecord]]:
    """The stages with a history; a retraining before the last is the fine-tuning of what was pruned."""
    retrained = [stage.digest for stage in stages if stage.name == "retrain"]
    for stage in stages:
        if stage.name == "retrain" and stage.digest != retrained[-1]:
            yield FINETUNING, stage
        elif stage.name in _REPORTING:
            yield stage.name, stage


def _history(stage: StageRecord, settings: Settings | None, store: Store) -> tuple[dict[str, float], ...]:
    result = search_result(stage, settings, store)
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
    """What is true of both: 'srnets' of 'srnets, PoE pruned' and 'srnets + FreeLB'."""
    parts = zip(_PARTS.split(first), _PARTS.split(second), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], parts)) or "several methods"
