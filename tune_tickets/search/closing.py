"""Closes a search: ranks the tickets, compares the first with the controls, gives a verdict, writes the summary."""

import errno
import platform
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeVar, get_args

from tune_tickets.attacks.records import sample_substitutions
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config import Experiment, Settings
from tune_tickets.config.objective import Objective
from tune_tickets.config.training import ADVERSARIES, Adversary
from tune_tickets.engine.quarantine import to_recompute
from tune_tickets.engine.runner import Runner
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store, Unreadable
from tune_tickets.errors import SearchStopped, TicketsError
from tune_tickets.methods.base import Flow
from tune_tickets.methods.stages import TICKET_FILE
from tune_tickets.reports.artifacts import attacked_records
from tune_tickets.reports.attacked import substitution_page
from tune_tickets.reports.comparisons import comparisons, detectable_differences, ood_comparisons
from tune_tickets.results.folder import Results
from tune_tickets.results.metrics import table
from tune_tickets.results.objective import doubtful_gains, feasible, front, near_constant, ranked
from tune_tickets.results.records import (
    ControlRecord,
    CostBaseline,
    Detectable,
    EpochsRecord,
    Outcome,
    SearchStatus,
    Selection,
    StageRecord,
    StageUse,
    Summary,
    ThreatRecord,
    TrialRecord,
    Verdict,
)
from tune_tickets.results.summary import write_summary
from tune_tickets.results.verdict import judge_search
from tune_tickets.search.space import reference
from tune_tickets.search.trainable import TrialContext
from tune_tickets.tickets.ticket import Ticket, save_ticket

Kind = Literal["pgd", "freelb"]


def cost_baselines(experiment: Experiment, trials: list[TrialRecord]) -> tuple[CostBaseline, ...]:
    """Return one baseline per adversary: its best trial in this experiment, else one computed for the reference."""
    return tuple(
        _measured(kind, experiment, trials) or _computed(kind, reference(experiment)) for kind in get_args(Kind)
    )


def _measured(kind: Kind, experiment: Experiment, trials: list[TrialRecord]) -> CostBaseline | None:
    """Return the best fine-tuning with only this adversary, whether it qualifies or not; of equal ones the earlier."""
    found = [trial for trial in trials if trial.title == ADVERSARIES[kind] and trial.values]
    if not found:
        return None
    best = max(found, key=lambda trial: (sum(trial.values or ()), -trial.number))
    if best.cost is None:
        return None
    retraining = experiment.at(best.params).retraining
    return CostBaseline(
        adversary=kind,
        trial=best.id,
        steps=retraining.adversary.steps,
        epochs=retraining.epochs,
        passes=best.cost.retraining.passes,
        seconds=best.cost.retraining.seconds,
    )


def _computed(kind: Kind, settings: Settings) -> CostBaseline:
    """Return the passes of a fine-tuning with as many epochs as the controls."""
    adversary = Adversary(kind=kind, steps=_steps(settings))
    epochs = settings.retraining.epochs
    return CostBaseline(
        adversary=kind,
        trial=None,
        steps=adversary.steps,
        epochs=epochs,
        passes=float(epochs * adversary.passes),
        seconds=None,
    )


def _steps(settings: Settings) -> int:
    """Return K of the adversary that the experiment trains with."""
    for section in (settings.method, settings.retraining):
        adversary = getattr(section, "adversary", None)
        if isinstance(adversary, Adversary) and adversary.kind in get_args(Kind):
            return adversary.steps
    return Adversary().steps


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE = "disk is full"
"""The message of SQLite inside errors of Optuna, SQLAlchemy and MLflow."""


@contextmanager
def naming_a_full_disk(results: Results) -> Iterator[None]:
    """Turn errors of a full disk into one that says what to do. Other errors are not changed."""
    try:
        yield
    except TicketsError:
        raise
    except Exception as error:
        found = next((each for each in _chain(error) if _of_a_full_disk(each)), None)
        if found is None:
            raise
        place = getattr(found, "filename", None) or results.folder
        raise SearchStopped(
            f"the disk is full ({place}). Finished work is kept. Free some space ('tune-tickets store prune "
            f"{results.folder}' lists what can be removed), then run: tune-tickets resume {results.folder} "
            "--retry-errors"
        ) from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _of_a_full_disk(error: BaseException) -> bool:
    return (isinstance(error, OSError) and error.errno in _FULL) or _SQLITE in str(error)


def threat_records(
    threats: Sequence[ThreatModel],
    seed: int,
    best: Sequence[TrialRecord],
    controls: Sequence[ControlRecord],
    store: Store,
) -> tuple[ThreatRecord, ...]:
    """Return one record per threat model, with substitutions against the winner, else the first control."""
    model, stages = _judged(best, controls)
    attacked = attacked_records(stages, store)
    return tuple(
        ThreatRecord(
            name=threat.name,
            fingerprint=threat.fingerprint,
            resources=dict(threat.resources),
            substitutions=sample_substitutions(attacked.get(threat.name, []), seed),
            substitutions_of=model if threat.name in attacked else None,
        )
        for threat in threats
    )


def write_substitutions(threats: Sequence[ThreatRecord], path: Path) -> None:
    """Write the samples of substitutions as a page. There is none if nothing was attacked."""
    pages = [
        substitution_page(threat.name, threat.substitutions_of, threat.substitutions)
        for threat in threats
        if threat.substitutions_of is not None
    ]
    if pages:
        path.write_text("\n".join(pages), encoding="utf-8")


def _judged(
    best: Sequence[TrialRecord], controls: Sequence[ControlRecord]
) -> tuple[str | None, tuple[StageRecord, ...]]:
    if best:
        return best[0].id, best[0].stages
    return (controls[0].name, controls[0].stages) if controls else (None, ())


Measured = TypeVar("Measured", TrialRecord, ControlRecord)
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
    stopped_by: str | None = None,
    spent: Mapping[str, float] | None = None,
    epochs: Sequence[EpochsRecord] = (),
) -> Summary:
    """Rank the tickets, save the first, give the verdict, and write `summary.json` and a sample of substitutions."""
    trials, controls = _with_notes(trials, controls), _with_notes(controls, controls, experiment.settings.objective)
    best = ranked(trials)
    problem = _save_ticket(experiment, best[0], results) if best else None
    verdict = judge_search(trials, controls, experiment.settings.objective)
    records = threat_records(threats, experiment.settings.seed, best, controls, Store(results.store_url))
    summary = Summary(
        experiment=experiment.settings.name,
        config_digest=experiment.digest,
        seed=experiment.settings.seed,
        status=status,
        stopped_by=stopped_by if status in ("stopped", "failed") else None,
        spent=dict(spent or {}),
        trials=tuple(trials),
        controls=tuple(controls),
        epochs=tuple(epochs),
        selected=_select(best, trials, controls, results, problem, verdict),
        verdict=verdict,
        front=tuple(trial.id for trial in front(trials)),
        threat_models=records,
        cost_baselines=cost_baselines(experiment, trials),
        uses_ood_information=any(trial.uses_ood_information for trial in trials),
        detectable=_detectable(best, trials, controls),
        stages=_stage_use(trials, controls, epochs),
        versions=_versions(),
        total_seconds=seconds,
    )
    write_summary(summary, results.folder)
    write_substitutions(records, results.substitutions)
    return summary


def _select(
    best: list[TrialRecord],
    trials: list[TrialRecord],
    controls: list[ControlRecord],
    results: Results,
    problem: str | None,
    verdict: Verdict,
) -> Selection:
    if not best:
        return Selection(trial=None, ticket=None, reason=_why_none(trials))
    winner = best[0]
    assert winner.outcome is not None
    assert winner.values is not None
    beaten = verdict.kind == "keep_dense"
    own: dict[str, Outcome] = {control.name: control.outcome for control in controls if control.like is None}
    second: dict[str, Outcome] = {}
    if len(best) > 1 and best[1].outcome is not None:
        second[f"the next in rank, {best[1].id}"] = best[1].outcome
    return Selection(
        trial=winner.id,
        beaten=beaten,
        ticket=results.ticket.name if problem is None else None,
        reason=f"{why_first(best, beaten)}{problem or ''}",
        # The controls are one family of tests. The next in rank is no control.
        comparisons=comparisons(winner.outcome, own) + comparisons(winner.outcome, second),
        ood=ood_comparisons(winner.outcome, own) + ood_comparisons(winner.outcome, second),
    )


def why_first(best: list[TrialRecord], beaten: bool = False) -> str:
    """Return why the first of the qualified tickets wins, or that the dense control beats it."""
    metrics = best[0].metrics
    rows = [row for row in table() if row.over_tasks and row.name in metrics]
    figures = ", ".join(f"{row.said} {metrics[row.name]:.1f}%" for row in rows)
    if beaten:
        rank = f"has the highest objective of the {len(best)} tickets" if len(best) > 1 else "is the only ticket"
        return f"{best[0].id} {rank} that may win ({figures}), but the dense model is better."
    rank = f"the best of the {len(best)} tickets that may win" if len(best) > 1 else "the only ticket that may win"
    return f"{best[0].id} is {rank} ({figures})."


def _with_notes(
    records: list[Measured], controls: list[ControlRecord], objective: Objective | None = None
) -> list[Measured]:
    """Add notes about OOD metrics that the dense control explains.

    With an `objective`, near-constant controls get a note too. Trials were already judged by it.
    """
    dense = _dense(controls)
    return [
        record
        if record.outcome is None
        else record.model_copy(update={"outcome": _noted(record.outcome, dense, objective)})
        for record in records
    ]


def _noted(outcome: Outcome, dense: Outcome | None, objective: Objective | None) -> Outcome:
    constant = near_constant(objective, outcome.metrics()) if objective is not None else ()
    notes = dict.fromkeys((*outcome.notes, *constant, *doubtful_gains(outcome, dense)))
    return outcome.model_copy(update={"notes": tuple(notes)})


def _detectable(
    best: list[TrialRecord], trials: list[TrialRecord], controls: list[ControlRecord]
) -> tuple[Detectable, ...]:
    """Return the detectable OOD differences of the winner, else of any measured trial, to the dense control."""
    found = [trial.outcome for trial in (*best, *trials) if trial.outcome is not None]
    return detectable_differences(found[0], _dense(controls)) if found and found[0].ood else ()


def _dense(controls: list[ControlRecord]) -> Outcome | None:
    return next((control.outcome for control in controls if control.kind == "dense"), None)


def _why_none(trials: list[TrialRecord]) -> str:
    complete = [trial for trial in trials if trial.status == "complete"]
    if not complete:
        return "No trial was measured completely, so no ticket is selected."
    assert not feasible(trials)
    return (
        f"None of the {len(complete)} measured tickets may win: each is below the floor on clean accuracy, misses a "
        "constraint or answers almost the same for every row. Prune less, train longer, or loosen the objective."
    )


def _save_ticket(experiment: Experiment, winner: TrialRecord, results: Results) -> str | None:
    """Save the winner, and its tickets for further tasks. Returns what is wrong with the store, or None."""
    assert winner.outcome is not None
    store = Store(results.store_url)
    method = experiment.at(winner.params).method.kind
    models = {results.ticket: winner.outcome}
    models |= {results.ticket_on(transfer.name): transfer.outcome for transfer in winner.outcome.transfers}
    for path, outcome in models.items():
        try:
            trained = store.require(trained_by(outcome))
            ticket = Ticket.from_bytes(store.read(trained, TICKET_FILE), where=TICKET_FILE)
        except Unreadable as damage:
            return f" It could not be saved: {damage}."
        story = replace(ticket.metadata, method=method, params=winner.params, metrics=outcome.metrics())
        save_ticket(replace(ticket, metadata=story), path)
    return None


def regain_weights(context: TrialContext, runner: Runner, winner: TrialRecord) -> None:
    """Compute the winner's weights again if the store has lost them. Needs workers."""
    assert winner.outcome is not None
    pipeline = Flow(context.experiment.at(winner.params), context.world, runner)
    for outcome in (winner.outcome, *(transfer.outcome for transfer in winner.outcome.transfers)):
        stage = to_recompute(Store(context.store_url), trained_by(outcome))
        if stage is not None:
            pipeline.recompute(stage)


def trained_by(outcome: Outcome) -> StageKey:
    """Return the stage that trained the model behind the metrics."""
    return StageKey("retrain", outcome.retrain_digest, outcome.retrain_digest)


def _stage_use(
    trials: list[TrialRecord], controls: list[ControlRecord], epochs: Sequence[EpochsRecord]
) -> dict[str, StageUse]:
    stages: dict[str, list[StageRecord]] = defaultdict(list)
    models: tuple[TrialRecord | ControlRecord | EpochsRecord, ...] = (*controls, *trials, *epochs)
    own = [model.stages for model in models]
    outcomes = (*(control.outcome for control in controls), *(trial.outcome for trial in trials))
    transfers = [transfer for outcome in outcomes if outcome is not None for transfer in outcome.transfers]
    for found in (*own, *(transfer.stages for transfer in transfers)):
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
