"""Confirming the best tickets of a search: fresh seeds, report rows, and controls trained with the same seeds.

What is confirmed was chosen before, by the summary alone; here report rows are seen for the first and only time.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import ray

from tune_tickets.config import Experiment, Settings
from tune_tickets.confirmation import Confirmation, ConfirmedModel, SeedRun
from tune_tickets.data.task import TaskData, load_task
from tune_tickets.errors import TicketsError
from tune_tickets.records import Summary, headline
from tune_tickets.reporting.confirmed import estimates, tests
from tune_tickets.reporting.progress import Event, Note, TrialFinished, TrialStarted
from tune_tickets.trial.client import BrokerRunner, start_broker
from tune_tickets.trial.in_use import in_use
from tune_tickets.trial.pipeline import World
from tune_tickets.trial.rows import keep_rows, rows_stage
from tune_tickets.trial.runner import Runner
from tune_tickets.trial.stage import Stage, StageKey
from tune_tickets.trial.store import Store
from tune_tickets.trial.twins import keep_twins, twin_stage
from tune_tickets.tuning.contenders import Contender, check_masks, choose, contenders
from tune_tickets.tuning.preflight import preflight
from tune_tickets.tuning.results import Results
from tune_tickets.tuning.session import ray_session
from tune_tickets.tuning.watch import StageWatch


def report_world(world: World, data: TaskData, store: Store) -> World:
    """The world in which models are measured on the report rows; they are trained on what they were before."""
    twins = tuple(replace(twin, select=twin.report) for twin in data.ood)
    reported = replace(data, train=(), select=data.report, ood=twins, ood_train=())
    keep_rows(store, reported)
    keep_twins(store, reported)
    return replace(
        world, measured=_key(rows_stage(reported)), twins={twin.name: _key(twin_stage(twin)) for twin in twins}
    )


def _key(stage: Stage) -> StageKey:
    return StageKey(stage.name, stage.digest, stage.digest)


def confirm(
    experiment: Experiment,
    summary: Summary,
    results: Results,
    top: int,
    seeds: int,
    rows: int | None,
    emit: Callable[[Event], None],
) -> Confirmation:
    """Train and measure everything; what is in the store already is not computed again."""
    started = time.monotonic()
    settings, store = experiment.settings, Store(results.store_url).answering(writing=True)
    data = load_task(settings.task, settings.seed)
    attacked = _attacked_rows(rows, settings, len(data.report))
    chosen = choose(summary, top)
    models = contenders(experiment, chosen, attacked)
    check_masks(models, store)
    world = report_world(preflight(experiment, store), data, store)
    # Those behind the seed of the search, which has shaped what was chosen.
    numbers = tuple((settings.seed + 1 + index) % 2**31 for index in range(seeds))
    databases = [results.optuna, results.mlflow]
    with in_use(store, results.folder), ray_session(settings.resources, databases, results.store_url) as room:
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
    """All models and seeds, a few at once: each only waits for the broker, as trials do."""
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
