"""Random controls: tickets that keep as much in every layer as found ones, of parts drawn by lot."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

from tune_tickets.config import Experiment
from tune_tickets.config.method import RandomTicket
from tune_tickets.errors import StoreError, TicketsError
from tune_tickets.objective import front, ranked
from tune_tickets.records import ControlRecord, Outcome, TrialRecord, headline
from tune_tickets.reporting.progress import Event, TrialFinished, TrialStarted
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.trial.client import BrokerRunner
from tune_tickets.trial.pipeline import Pipeline
from tune_tickets.trial.stage import StageKey
from tune_tickets.trial.store import Store
from tune_tickets.trial.trainable import TrialContext
from tune_tickets.tuning.artifacts import stored_mask
from tune_tickets.tuning.controls import control_record, measured_at_once, reading


def random_controls(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    trials: list[TrialRecord],
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> list[ControlRecord]:
    """Random tickets like those that `controls.random_of` names, each trained as its trial was; the winner's first.

    One that fails is left out and said to; none is begun, or waited for, once the search has `ended`, but those in the
    store are read.
    """
    settings = context.experiment.settings
    winner = ranked(trials)[:1]
    like = matched(context.experiment, trials, Store(context.store_url))
    own, others = [trial for trial in like if trial in winner], [trial for trial in like if trial not in winner]
    seeds = range(settings.controls.random_seeds)
    # Every ticket gets its first before any gets its second: a budget that ends then leaves a whole line.
    order = [(trial, seed) for trial in own for seed in seeds] + [(trial, seed) for seed in seeds for trial in others]
    jobs = [
        partial(_control, context, broker, trial, seed, None if trial in own else trial.id, emit, ended)
        for trial, seed in order
    ]
    return measured_at_once(jobs, settings.search.concurrency)


def matched(experiment: Experiment, trials: list[TrialRecord], store: Store) -> list[TrialRecord]:
    """The trials whose tickets get random ones like them: the winner, then others; of equal counts the best ranked.

    Beside the winner none that is random itself or ablated: a random one like it would be no other control.
    """
    best, which = ranked(trials), experiment.settings.controls.random_of
    rest = [trial for trial in trials if trial.status == "complete" and trial not in best]
    others = {"winner": [], "front": front(trials), "all": [*best, *rest]}[which]
    found: dict[Hashable, TrialRecord] = {}
    for trial in (*best[:1], *others):
        plain = _plain(experiment, trial)
        if trial.outcome is not None and trial.outcome.draw_digest is not None and (plain or trial in best[:1]):
            found.setdefault((plain, _counts(trial.outcome, store)), trial)
    return list(found.values())


def _plain(experiment: Experiment, trial: TrialRecord) -> bool:
    settings = experiment.at(trial.params)
    ablated = settings.ablation.mask == "shuffled" or bool(settings.ablation.start_inputs())
    return not ablated and not isinstance(settings.method, RandomTicket)


def _counts(outcome: Outcome, store: Store) -> Hashable:
    """How much a ticket keeps in every layer or matrix; of a mask that cannot be read, which it is."""
    assert outcome.draw_digest is not None
    try:
        mask = stored_mask(outcome.draw_digest, store)
    except StoreError:
        mask = None
    if mask is None:
        return outcome.mask
    if isinstance(mask, StructuredMask):
        return tuple(tuple(kept.sum(dim=1).tolist()) for kept in (mask.heads, mask.neurons))
    return tuple((name, int(kept.sum())) for name, kept in sorted(mask.kept.items()))


def _control(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    trial: TrialRecord,
    seed: int,
    like: str | None,
    emit: Callable[[Event], None],
    ended: Callable[[], bool],
) -> ControlRecord | None:
    settings = context.experiment.at(trial.params)
    if ended():
        pipeline = reading(context, settings)
        with suppress(TicketsError):
            return control_record("random", seed, _measured(pipeline, trial, seed), pipeline, like)
        return None
    name = ControlRecord.named(seed, like)
    emit(TrialStarted(name, {}))
    pipeline = Pipeline(settings, context.world, BrokerRunner(broker, context.store_url, name, ended))
    try:
        measured = _measured(pipeline, trial, seed)
    except Exception as error:  # hours of search are not given up for a control
        emit(TrialFinished(name, "interrupted" if ended() else "failed", None, {}, str(error)))
        return None
    emit(TrialFinished(name, "complete", None, headline(measured.metrics())))
    return control_record("random", seed, measured, pipeline, like)


def _measured(pipeline: Pipeline, trial: TrialRecord, seed: int) -> Outcome:
    assert trial.outcome is not None
    key = _drawn(trial.outcome)
    assert key is not None
    others = {transfer.name: _drawn(transfer.outcome) for transfer in trial.outcome.transfers}
    transfers = {task: drawn for task, drawn in others.items() if drawn is not None}
    return pipeline.random_control(key, seed, lambda record: None, transfers)


def _drawn(outcome: Outcome) -> StageKey | None:
    """Where the mask of a ticket lies; None for the whole model."""
    if outcome.draw_digest is None or outcome.mask is None:
        return None
    return StageKey("draw", outcome.draw_digest, outcome.mask)
