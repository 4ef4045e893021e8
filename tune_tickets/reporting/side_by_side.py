"""Finished experiments compared: their winners and controls, paired tests, and what differs in their settings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from pydantic import Field

from tune_tickets.records import Comparison, Cost, Outcome, Record, SearchStatus
from tune_tickets.reporting.compare import paired
from tune_tickets.reporting.finished import Finished
from tune_tickets.reporting.rows import Row, winner_and_controls


class ComparedExperiment(Record):
    """Where a label leads to."""

    label: str
    folder: str
    experiment: str
    config_digest: str
    status: SearchStatus
    winner: str | None = Field(description="The selected trial")
    params: dict[str, Any] = Field(description="Its values of the search domains")


class ComparedModel(Record):
    """A winner or control."""

    experiment: str = Field(description="Label of its experiment")
    name: str
    method: str
    outcome: Outcome
    cost: Cost | None


class PairedWinners(Comparison):
    """The winner of `one` compared with that of `other`, both labels."""

    one: str


class SideBySide(Record):
    """What `tune-tickets compare --json` writes. Fields are only ever added."""

    experiments: tuple[ComparedExperiment, ...]
    models: tuple[ComparedModel, ...]
    comparisons: tuple[PairedWinners, ...]
    notes: tuple[str, ...] = Field(description="What must be known before figures are compared")
    differences: dict[str, dict[str, Any]] = Field(description="Setting -> label -> value; a label may lack it")


def compared_rows(experiments: Iterable[Finished]) -> list[Row]:
    """All rows of the one table, their names opening with the label of their experiment."""
    return [
        replace(row, name=f"{experiment.label} {row.name}")
        for experiment in experiments
        for row in winner_and_controls(experiment.summary)
    ]


def side_by_side(experiments: list[Finished]) -> SideBySide:
    """Everything that can be said of the experiments together."""
    return SideBySide(
        experiments=tuple(map(_identity, experiments)),
        models=tuple(
            ComparedModel(
                experiment=experiment.label, name=row.name, method=row.method, outcome=row.outcome, cost=row.cost
            )
            for experiment in experiments
            for row in winner_and_controls(experiment.summary)
        ),
        comparisons=tuple(_comparisons(experiments)),
        notes=(*_states(experiments), *_threats(experiments), *_samples(experiments)),
        differences=_differences(experiments),
    )


def _identity(experiment: Finished) -> ComparedExperiment:
    summary, winner = experiment.summary, experiment.winner
    return ComparedExperiment(
        label=experiment.label,
        folder=str(experiment.folder),
        experiment=summary.experiment,
        config_digest=summary.config_digest,
        status=summary.status,
        winner=winner.id if winner else None,
        params=winner.params if winner else {},
    )


def _winners(experiments: Iterable[Finished]) -> dict[str, Outcome]:
    found = {experiment.label: experiment.winner for experiment in experiments}
    return {label: trial.outcome for label, trial in found.items() if trial is not None and trial.outcome is not None}


def _comparisons(experiments: list[Finished]) -> Iterator[PairedWinners]:
    """Paired tests of winners, where their attacks name the same threat model and the same rows."""
    for (label, one), (name, other) in combinations(_winners(experiments).items(), 2):
        known = [figures for figures in one.attacks if figures.sample]
        for comparison in paired(name, known, other.attacks):
            yield PairedWinners(one=label, **comparison.model_dump())


def _states(experiments: list[Finished]) -> Iterator[str]:
    for experiment in experiments:
        summary = experiment.summary
        if experiment.winner is None:
            yield f"{experiment.label} has no winner: {summary.selected.reason}"
        if summary.status != "finished":
            ended = summary.status if summary.status == "failed" else f"was {summary.status}"
            yield f"{experiment.label} {ended} before its trials were done: more may be in it."


def _threats(experiments: list[Finished]) -> Iterator[str]:
    """Names that stand for different threat models."""
    users: dict[str, dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for experiment in experiments:
        for row in winner_and_controls(experiment.summary):
            for figures in row.outcome.attacks:
                users[figures.threat][figures.fingerprint][experiment.label] = None
    for name, fingerprints in users.items():
        if len(fingerprints) > 1:
            known = "; ".join(f"{', '.join(labels)}: {found[:8]}" for found, labels in fingerprints.items())
            yield (
                f"{name} is not the same threat model everywhere ({known}): each has columns of its own, and figures "
                "of one must not be compared with figures of the other."
            )


def _samples(experiments: list[Finished]) -> Iterator[str]:
    """Pairs of winners that were measured on different rows, or do not say on which."""
    for (label, one), (name, other) in combinations(_winners(experiments).items(), 2):
        if not one.clean.sample or one.clean.sample != other.clean.sample:
            yield f"Clean%: {label} and {name} {_apart(one.clean.sample, other.clean.sample)}."
        samples = {twin.name: twin.sample for twin in other.ood}
        for twin in one.ood:
            if twin.name in samples and twin.sample != samples[twin.name]:
                yield f"ood {twin.name}: {label} and {name} {_apart(twin.sample, samples[twin.name])}."
        for ours in one.attacks:
            for theirs in other.attacks:
                same = ours.sample and ours.sample == theirs.sample
                if ours.fingerprint == theirs.fingerprint and not same:
                    reason = _apart(ours.sample, theirs.sample)
                    yield f"{ours.threat}: {label} and {name} {reason}, so there is no paired test of them."


def _apart(one: str, other: str) -> str:
    return "were measured on different rows" if one and other else "do not both name the rows they were measured on"


def _differences(experiments: list[Finished]) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(name for experiment in experiments for name in experiment.settings)
    values = {
        name: {one.label: one.settings[name] for one in experiments if name in one.settings} for name in names
    }  # fmt: skip
    return {
        name: found
        for name, found in values.items()
        if len(found) < len(experiments) or len({repr(value) for value in found.values()}) > 1
    }
