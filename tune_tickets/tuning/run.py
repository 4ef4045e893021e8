"""Running a whole search: the driver's side of Ray Tune, from checks to the summary."""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import optuna
import ray
from ray import tune

from tune_tickets.config import Experiment
from tune_tickets.errors import SearchStopped
from tune_tickets.objective import ranked
from tune_tickets.records import ControlRecord, SearchStatus, Summary
from tune_tickets.report.progress import Event
from tune_tickets.tracking.protocol import AnyTracker, open_tracker
from tune_tickets.trial.client import BrokerRunner, start_broker
from tune_tickets.trial.store import Store
from tune_tickets.trial.trainable import TrialContext, run_trial
from tune_tickets.tuning.artifacts import trial_artifacts
from tune_tickets.tuning.closing import close_search
from tune_tickets.tuning.controls import DenseControl, random_controls
from tune_tickets.tuning.observer import Observer, Stopper
from tune_tickets.tuning.preflight import preflight
from tune_tickets.tuning.results import Results
from tune_tickets.tuning.scheduler import make_scheduler
from tune_tickets.tuning.searcher import TicketSearch
from tune_tickets.tuning.session import ray_session
from tune_tickets.tuning.watch import StageWatch

INTERRUPTED = "interrupted"
_COORDINATOR = {"CPU": 0, "node:__internal_head__": 0.001}
"""A trial only waits, on the head node. A sliver of CPU could keep a stage that wants a whole one waiting for ever."""


@dataclass(frozen=True)
class Finished:
    """A search that ended in good order, and what MLflow could not keep of it."""

    summary: Summary
    problems: tuple[str, ...]


def run_experiment(
    experiment: Experiment, results: Results, emit: Callable[[Event], None], resume: bool = False
) -> Finished:
    """Search, and leave the results folder complete. Raises before anything is written if the input is wrong."""
    started = time.monotonic()
    results.check(experiment, resume)
    world = preflight(experiment, Store(results.store_url))
    results.open(experiment)
    settings = experiment.settings
    tracker = open_tracker(settings.tracking, results.folder, settings.name, experiment.resolved(), experiment.digest)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    searcher = TicketSearch(experiment, optuna.storages.RDBStorage(f"sqlite:///{results.optuna}"))
    stopper = Stopper()
    observer = Observer(experiment, searcher, results, tracker, emit, stopper)
    context = TrialContext(experiment, world, results.store_url, broker=f"broker-{experiment.digest[:12]}")
    with ray_session(settings.resources, [results.optuna, results.mlflow]), _ending_on_signals(stopper):
        broker = start_broker(context.broker, results.store_url, settings.resources)
        observer.follow(BrokerRunner(broker, results.store_url, "driver").tell_values)
        dense = DenseControl(context, broker, emit)
        try:
            with StageWatch(broker, _labels(observer), emit):
                _search(context, searcher, observer, stopper, results)
                controls = _controls(context, broker, dense, observer, stopper, emit)
        finally:
            dense.close()
            ray.get(broker.close.remote(), timeout=30.0)
    for control in controls:
        files = trial_artifacts(control.name, control.stages, settings, Store(results.store_url), results)
        tracker.log_control(control, files)
    return _close(context, results, observer, controls, tracker, stopper, time.monotonic() - started)


def _search(
    context: TrialContext, searcher: TicketSearch, observer: Observer, stopper: Stopper, results: Results
) -> None:
    search = context.experiment.settings.search
    left = search.trials - searcher.finished()
    if left <= 0:
        return
    state = results.folder / ".tune"
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(run_trial, context=context), _COORDINATOR),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=make_scheduler(context.experiment),
            num_samples=left,
            max_concurrent_trials=search.concurrency,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name="state", storage_path=str(state), callbacks=[observer], stop=stopper, verbose=0, log_to_file=False
        ),
    )
    try:
        grid = tuner.fit()
        observer.close([*grid._experiment_analysis.trials])
    finally:
        searcher.end_running()
        shutil.rmtree(state, ignore_errors=True)  # a search is rebuilt from its storage, never from this


def _controls(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    dense: DenseControl,
    observer: Observer,
    stopper: Stopper,
    emit: Callable[[Event], None],
) -> list[ControlRecord]:
    found = [control] if (control := dense.result(wait=stopper.reason is None)) is not None else []
    best = ranked(list(observer.trials.values()))
    if stopper.reason is None and context.experiment.settings.controls.random and best:
        found += random_controls(context, broker, best[0], emit)
    return found


def _close(
    context: TrialContext,
    results: Results,
    observer: Observer,
    controls: list[ControlRecord],
    tracker: AnyTracker,
    stopper: Stopper,
    seconds: float,
) -> Finished:
    trials = sorted(observer.trials.values(), key=lambda trial: trial.number)
    status: SearchStatus = "stopped"
    if stopper.reason in (None, INTERRUPTED):
        status = "finished" if stopper.reason is None else "interrupted"
    summary = close_search(context.experiment, context.world.threats, results, trials, controls, status, seconds)
    files = [path for path in (results.folder / "summary.json", results.substitutions) if path.exists()]
    tracker.finish(summary, {path.name: path for path in files})
    if status == "stopped":
        last = next((trial.error for trial in reversed(trials) if trial.error), "no reason was recorded")
        raise SearchStopped(
            f"the search was stopped: {stopper.reason}. The last one said: {last}\n"
            f"What was done is in {results.folder}; mend the cause and go on with --resume"
        )
    return Finished(summary, tracker.problems)


def _labels(observer: Observer) -> Any:  # noqa: ANN401 - a function of the waiter's name
    def label(waiter: str) -> int | str | None:
        if waiter.startswith(("dense", "random")):
            return waiter
        try:
            return observer.number_of(waiter)
        except KeyError:
            return None

    return label


@contextmanager
def _ending_on_signals(stopper: Stopper) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the search in good order, a second one ends it at once."""

    def end(number: int, frame: FrameType | None) -> None:
        if stopper.reason is not None:
            raise KeyboardInterrupt
        stopper.reason = INTERRUPTED

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
