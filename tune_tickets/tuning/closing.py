"""Closing a search: choosing the winner, comparing it with what stands beside it, and writing it all down."""

import platform
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config import Experiment
from tune_tickets.objective import feasible, front, ranked
from tune_tickets.records import (
    ControlRecord,
    Outcome,
    SearchStatus,
    Selection,
    StageRecord,
    StageUse,
    Summary,
    TrialRecord,
)
from tune_tickets.report.compare import comparisons
from tune_tickets.report.summary import write_summary
from tune_tickets.tickets.ticket import Ticket, save_ticket
from tune_tickets.trial.store import Store
from tune_tickets.tuning.artifacts import TICKET_FILE
from tune_tickets.tuning.baselines import cost_baselines
from tune_tickets.tuning.results import Results
from tune_tickets.tuning.threats import threat_records, write_substitutions

_PACKAGES = (
    "tune_tickets",
    "torch",
    "transformers",
    "datasets",
    "ray",
    "optuna",
    "textattack",
    "mlflow",
    "pydantic",
)  # fmt: skip


def close_search(
    experiment: Experiment,
    threats: Sequence[ThreatModel],
    results: Results,
    trials: list[TrialRecord],
    controls: list[ControlRecord],
    status: SearchStatus,
    seconds: float,
) -> Summary:
    """Choose, save the best ticket, write `summary.json` and a sample of substitutions."""
    best = ranked(trials)
    if best:
        _save_ticket(experiment, best[0], results)
    records = threat_records(threats, experiment.settings.seed, best, controls, Store(results.store_url))
    summary = Summary(
        experiment=experiment.settings.name,
        config_digest=experiment.digest,
        seed=experiment.settings.seed,
        status=status,
        trials=tuple(trials),
        controls=tuple(controls),
        selected=_select(best, trials, controls, results),
        front=tuple(trial.id for trial in front(trials)),
        threat_models=records,
        cost_baselines=cost_baselines(experiment, trials),
        stages=_stage_use(trials, controls),
        versions=_versions(),
        total_seconds=seconds,
    )
    write_summary(summary, results.folder)
    write_substitutions(records, results.substitutions)
    return summary


def _select(
    best: list[TrialRecord], trials: list[TrialRecord], controls: list[ControlRecord], results: Results
) -> Selection:
    if not best:
        return Selection(trial=None, ticket=None, reason=_why_none(trials))
    winner = best[0]
    others: dict[str, Outcome] = {control.name: control.outcome for control in controls}
    if len(best) > 1 and best[1].outcome is not None:
        others[f"the next best, {best[1].id}"] = best[1].outcome
    assert winner.outcome is not None
    assert winner.values is not None
    figures = f"clean {winner.metrics['clean']:.1f}%, under attack {winner.metrics.get('aua', 0.0):.1f}%"
    return Selection(
        trial=winner.id,
        ticket=results.ticket.name,
        reason=f"{winner.id} is the best of {len(best)} tickets above the floor ({figures}).",
        comparisons=comparisons(winner.outcome, others),
    )


def _why_none(trials: list[TrialRecord]) -> str:
    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete:
        return "No trial was measured to its end, so no ticket is selected."
    assert not feasible(trials)
    return (
        f"None of the {len(complete)} measured tickets may win: each is below the floor on clean accuracy or answers "
        "almost the same for every row. Prune less, train longer, or loosen objective.floor_points."
    )


def _save_ticket(experiment: Experiment, winner: TrialRecord, results: Results) -> None:
    assert winner.outcome is not None
    store = Store(results.store_url)
    trained = store.find("retrain", winner.outcome.retrain_digest)
    assert trained is not None
    ticket = Ticket.from_bytes(store.read(trained, TICKET_FILE), where=TICKET_FILE)
    method = experiment.at(winner.params).method.kind
    story = replace(ticket.metadata, method=method, params=winner.params, metrics=winner.metrics)
    save_ticket(replace(ticket, metadata=story), results.ticket)


def _stage_use(trials: list[TrialRecord], controls: list[ControlRecord]) -> dict[str, StageUse]:
    stages: dict[str, list[StageRecord]] = defaultdict(list)
    for found in (*(control.stages for control in controls), *(trial.stages for trial in trials)):
        for stage in found:
            stages[stage.name].append(stage)
    return {
        name: StageUse(
            asked=len(records),
            computed=sum(not record.cached for record in records),
            seconds=sum(record.seconds for record in records if not record.cached),
        )
        for name, records in stages.items()
    }


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}
