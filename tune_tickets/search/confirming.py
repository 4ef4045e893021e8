"""Confirms the best tickets of a search with new seeds on the report rows, together with controls.

The tickets were chosen on the select rows. The report rows are used here for the first and only time.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import ray

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.title import title
from tune_tickets.data.task import TaskData, load_task
from tune_tickets.engine.client import BrokerRunner, start_broker
from tune_tickets.engine.inventory import in_use
from tune_tickets.engine.runner import Runner, unheard
from tune_tickets.engine.stage import StageKey
from tune_tickets.engine.store import Store
from tune_tickets.errors import TicketsError
from tune_tickets.methods.base import Flow, World
from tune_tickets.methods.finetune import FineTune
from tune_tickets.methods.given import keep_rows, keep_twins, rows_stage, twin_stage
from tune_tickets.methods.random import RandomTicket
from tune_tickets.reports.confirmed import estimates, tests
from tune_tickets.results.folder import Results
from tune_tickets.results.metrics import headline
from tune_tickets.results.objective import ranked
from tune_tickets.results.records import (
    Confirmation,
    ConfirmedModel,
    ModelKind,
    Outcome,
    SeedRun,
    Summary,
    TrialRecord,
)
from tune_tickets.search.observer import StageWatch
from tune_tickets.search.preflight import preflight, stage_key
from tune_tickets.search.progress import Event, Note, TrialFinished, TrialStarted
from tune_tickets.search.session import ray_session
from tune_tickets.search.space import reference


@dataclass(frozen=True)
class Contender:
    """A model that is trained with every seed: a ticket, the whole model, or random tickets like one."""

    name: str
    kind: ModelKind
    settings: Settings
    ticket: StageKey | None
    trial: TrialRecord | None = None

    def measure(self, world: World, runner: Runner, seed: int) -> Outcome:
        """Train with the seed and measure on the rows of the world."""
        pipeline, method = Flow(self.settings, world, runner, training_seed=seed), self.settings.method
        if self.kind == "dense":
            return pipeline.train_and_measure(None, unheard)
        if self.kind == "random":
            assert self.ticket is not None
            return pipeline.random_control(self.ticket, seed, unheard)
        if not method.retrained:
            # A ticket that is not retrained: its mask only fits its own weights, so everything is repeated.
            return pipeline.find_ticket(unheard)
        return pipeline.train_and_measure(self.ticket, unheard, self.settings.ablation)

    @property
    def title(self) -> str:
        """The title in tables."""
        method = {"dense": FineTune(), "random": RandomTicket()}.get(self.kind, self.settings.method)
        return title(self.settings.model_copy(update={"method": method}))


def choose(summary: Summary, top: int) -> list[TrialRecord]:
    """Return the tickets to confirm, best first by the objective on select rows.

    With a vector of objectives, only tickets of the front are chosen.

    Raises:
        TicketsError: No trial qualified.
    """
    best = ranked(list(summary.trials))
    if not best:
        raise TicketsError(f"there is nothing to confirm: {summary.selected.reason}")
    vector = any(len(trial.values or ()) > 1 for trial in best)
    return [trial for trial in best if not vector or trial.id in summary.front][:top]


def contenders(experiment: Experiment, chosen: Sequence[TrialRecord], rows: int) -> list[Contender]:
    """Return the tickets, random tickets like each of them, and the dense control."""
    found = []
    for trial in chosen:
        assert trial.outcome is not None
        settings = _attacking(experiment.at(trial.params), rows)
        ticket = None
        if trial.outcome.draw_digest is not None and trial.outcome.mask is not None:
            ticket = StageKey("draw", trial.outcome.draw_digest, trial.outcome.mask)
        found.append(Contender(trial.id, "ticket", settings, ticket, trial))
        if ticket is not None:
            found.append(Contender(f"random like {trial.id}", "random", settings, ticket, trial))
    return [*found, Contender("dense", "dense", _attacking(reference(experiment), rows), None)]


def check_masks(models: Sequence[Contender], store: Store) -> None:
    """Raise TicketsError if the store lacks one of the tickets."""
    for model in models:
        if model.ticket is not None and store.find(model.ticket.name, model.ticket.digest) is None:
            raise TicketsError(
                f"the store {store.url} does not contain the ticket of {model.name}: "
                "name the store of the search with --store"
            )


def _attacking(settings: Settings, rows: int) -> Settings:
    return settings.model_copy(update={"evaluation": settings.evaluation.model_copy(update={"rows": rows})})


def report_world(world: World, data: TaskData, store: Store) -> World:
    """Return a world in which models are measured on the report rows. The training rows stay the same."""
    twins = tuple(replace(twin, select=twin.report) for twin in data.ood)
    reported = replace(data, train=(), select=data.report, ood=twins, ood_train=())
    keep_rows(store, reported)
    keep_twins(store, reported)
    return replace(
        world,
        measured=stage_key(rows_stage(reported)),
        twins={twin.name: stage_key(twin_stage(twin)) for twin in twins},
    )


def confirm(
    experiment: Experiment,
    summary: Summary,
    results: Results,
    top: int,
    seeds: int,
    rows: int | None,
    emit: Callable[[Event], None],
) -> Confirmation:
    """Train and measure the best tickets and their controls. Stored results are not computed again.

    Args:
        experiment: The experiment of the search.
        summary: The summary of the search.
        results: Its results folder.
        top: How many tickets to confirm.
        seeds: How many new seeds each is trained with.
        rows: How many report rows to attack; None: as many as select rows in the search.
        emit: Called with every event.

    Returns:
        All runs, with means, intervals and tests.

    Raises:
        TicketsError: No trial qualified, a ticket is missing, or there are too few report rows.
    """
    started = time.monotonic()
    settings, store = experiment.settings, Store(results.store_url).answering(writing=True)
    data = load_task(settings.task, settings.seed)
    attacked = _attacked_rows(rows, settings, len(data.report))
    chosen = choose(summary, top)
    models = contenders(experiment, chosen, attacked)
    check_masks(models, store)
    world = report_world(preflight(experiment, store), data, store)
    # Not the seed of the search, which influenced the choice.
    numbers = tuple((settings.seed + 1 + index) % 2**31 for index in range(seeds))
    with in_use(store, results.folder), ray_session(settings.resources, results.store_url) as room:
        if room is not None:
            emit(Note(room))
        broker = start_broker(f"confirm-{experiment.digest[:12]}", results.store_url, settings.resources)
        try:
            with StageWatch(broker, lambda waiter: waiter, emit):
                runs = _run_all(models, numbers, world, broker, results.store_url, settings.search.concurrency, emit)
        finally:
            ray.get(broker.close.remote(), timeout=30.0)
    confirmed = tuple(_confirmed(model, [run for run in runs if run.model == model.name]) for model in models)
    return Confirmation(
        experiment=settings.name,
        config_digest=summary.config_digest,
        report_fingerprint=data.report_fingerprint,
        rows=len(data.report),
        attacked_rows=attacked,
        seeds=numbers,
        tickets=tuple(trial.id for trial in chosen),
        models=confirmed,
        tests=tests(confirmed),
        total_seconds=time.monotonic() - started,
    )


def _run_all(
    models: Sequence[Contender],
    seeds: Sequence[int],
    world: World,
    broker: Any,  # noqa: ANN401 - an actor handle
    store_url: str,
    concurrency: int,
    emit: Callable[[Event], None],
) -> list[SeedRun]:
    """Run all models with all seeds, a few at the same time: each only waits for the broker."""
    pairs = [(model, seed) for seed in seeds for model in models]
    runners = [BrokerRunner(broker, store_url, f"{model.name}, seed {seed}") for model, seed in pairs]
    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        try:
            jobs = [
                pool.submit(_measured, model, seed, world, runner, emit)
                for (model, seed), runner in zip(pairs, runners, strict=True)
            ]
            return [job.result() for job in jobs]
        except BaseException:
            for runner in runners:
                runner.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _measured(model: Contender, seed: int, world: World, runner: Runner, emit: Callable[[Event], None]) -> SeedRun:
    label = f"{model.name}, seed {seed}"
    emit(TrialStarted(label, {}))
    try:
        outcome = model.measure(world, runner, seed)
    except Exception as error:
        emit(TrialFinished(label, "failed", None, {}, str(error)))
        return SeedRun(model=model.name, seed=seed, status="failed", error=str(error))
    emit(TrialFinished(label, "complete", None, headline(outcome.metrics())))
    return SeedRun(
        model=model.name,
        seed=seed,
        status="complete",
        metrics=outcome.metrics(),
        retrain_digest=outcome.retrain_digest,
    )


def _confirmed(model: Contender, runs: Sequence[SeedRun]) -> ConfirmedModel:
    return ConfirmedModel(
        name=model.name,
        kind=model.kind,
        trial=model.trial.id if model.trial is not None else None,
        title=model.title,
        params=model.trial.params if model.trial is not None else {},
        failed=sum(run.status == "failed" for run in runs),
        estimates=estimates(runs),
        runs=tuple(runs),
    )


def _attacked_rows(asked: int | None, settings: Settings, present: int) -> int:
    if asked is not None and asked > present:
        raise TicketsError(f"--rows asks for {asked} attacked rows, but there are {present} report rows")
    return asked or min(settings.evaluation.rows, present)
