"""Runs a whole search: the checks, Ray Tune, the controls and the summary."""

import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import optuna
import ray
from optuna.storages import RDBStorage
from ray import tune

from tune_tickets.config import Experiment
from tune_tickets.engine.client import ON_HEAD, BrokerRunner, start_broker
from tune_tickets.engine.inventory import in_use
from tune_tickets.engine.store import Store
from tune_tickets.errors import SearchStopped, TicketsError
from tune_tickets.methods.base import World
from tune_tickets.reports.artifacts import transfer_artifacts, trial_artifacts, winning_tickets
from tune_tickets.reports.gallery import draw_pictures, leave_report
from tune_tickets.results.folder import Results
from tune_tickets.results.objective import ranked
from tune_tickets.results.records import ControlRecord, EpochsRecord, SearchStatus, Summary, TrialRecord
from tune_tickets.search.closing import close_search, naming_a_full_disk, regain_weights
from tune_tickets.search.controls import DenseControl, epoch_records, random_controls
from tune_tickets.search.observer import Ledger, Observer, StageWatch, Stopper
from tune_tickets.search.preflight import preflight, search_inputs
from tune_tickets.search.progress import Event, Note, Resumed, TrialFinished
from tune_tickets.search.scheduler import make_scheduler
from tune_tickets.search.searcher import TicketSearch
from tune_tickets.search.session import alive_nodes, ray_session
from tune_tickets.search.space import trials_wanted
from tune_tickets.search.trainable import TrialContext, run_trial
from tune_tickets.tracking.place import make_whole, sqlite_uri
from tune_tickets.tracking.protocol import AnyTracker, open_tracker


def open_storage(path: Path) -> RDBStorage:
    """Open the Optuna storage at a path, or create it; raises TicketsError if it is damaged."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    uri = sqlite_uri(path)
    make_whole(uri, _make)
    _check(path)
    return RDBStorage(uri)


def _check(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as database:
            [(verdict,)] = database.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        raise TicketsError(
            f"{path} is damaged ({verdict}). Move it and the trials.jsonl next to it to another folder, then resume: "
            "trials are drawn again, but no finished stage is computed again"
        )


def _make(uri: str) -> None:
    storage = RDBStorage(uri)
    storage.remove_session()
    storage.engine.dispose()


INTERRUPTED = "interrupted"
_COORDINATOR = {"CPU": 0, **ON_HEAD}
"""A trial only waits, on the head node. A small share of a CPU could block a stage that needs a whole one."""


@dataclass(frozen=True)
class Finished:
    """A search that has ended, and what of pictures, report and MLflow could not be written."""

    summary: Summary
    problems: tuple[str, ...]


def run_experiment(
    experiment: Experiment,
    results: Results,
    emit: Callable[[Event], None],
    resume: bool = False,
    retry_errors: bool = False,
) -> Finished:
    """Run a search and write its results folder.

    Args:
        experiment: The experiment.
        results: The results folder, new or to be resumed.
        emit: Called with every event, from any thread.
        resume: Whether to resume the search in the folder.
        retry_errors: Whether to run failed trials again.

    Returns:
        The summary, and what could not be written.

    Raises:
        TicketsError: The input is wrong; nothing was written then.
        SearchStopped: Too many trials failed in a row, or the disk is full.
    """
    started = time.monotonic()
    results.check(experiment, resume)
    world = preflight(experiment, Store(results.store_url).answering(writing=True))
    with results.alone(), naming_a_full_disk(results):
        return _run(experiment, world, results, emit, resume, retry_errors, started)


def _run(
    experiment: Experiment,
    world: World,
    results: Results,
    emit: Callable[[Event], None],
    resume: bool,
    retry_errors: bool,
    started: float,
) -> Finished:
    settings = experiment.settings
    stopper = Stopper(Ledger(settings, results.spent, nodes=alive_nodes))
    context = TrialContext(experiment, world, results.store_url, broker=f"broker-{experiment.digest[:12]}")
    with (
        in_use(Store(results.store_url), results.folder),
        ray_session(settings.resources, results.store_url) as room,
        _ending_on_signals(stopper),
    ):
        if room is not None:
            emit(Note(room))
        results.open(experiment)  # only after the cluster was checked
        records = results.read_trials()
        searcher = TicketSearch(experiment, open_storage(results.optuna), records, retry_errors)
        if resume:
            emit(_resumed(searcher, records, retry_errors))
        tracker = open_tracker(
            settings.tracking,
            results.folder,
            settings.name,
            experiment.resolved(),
            experiment.digest,
            results.search_id,
        )
        tracker.log_inputs(search_inputs(settings, world, Store(results.store_url)))
        observer = Observer(experiment, searcher, results, tracker, emit, stopper)
        observer.recall(records)
        broker = start_broker(context.broker, results.store_url, settings.resources)
        observer.follow(BrokerRunner(broker, results.store_url, "driver").tell_values)
        failures: list[str] = []
        heard = partial(_hear, emit, failures)
        dense = DenseControl(context, broker, heard)
        try:
            with StageWatch(broker, _labels(observer), emit, stopper.ledger.charge):
                _search(context, searcher, observer, stopper, results)
                controls, epochs = _controls(context, broker, dense, observer, stopper, heard)
        finally:
            dense.close()
            stopper.ledger.close()  # counts nodes, so before Ray ends
            ray.get(broker.close.remote(), timeout=30.0)
    for control in controls:
        store = Store(results.store_url)
        files = trial_artifacts(control.name, control.stages, settings, store, results)
        tracker.log_control(control, files | transfer_artifacts(control.name, control.outcome, store, results))
    finished = _close(context, results, observer, controls, epochs, tracker, stopper, time.monotonic() - started)
    return replace(finished, problems=(*failures, *finished.problems))


def _search(
    context: TrialContext, searcher: TicketSearch, observer: Observer, stopper: Stopper, results: Results
) -> None:
    search = context.experiment.settings.search
    left = trials_wanted(context.experiment) - searcher.finished()
    if left <= 0 or stopper.stop_all():
        return
    state = results.folder / ".tune"
    shutil.rmtree(state, ignore_errors=True)  # left by a killed driver
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(run_trial, context=context), _COORDINATOR),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=make_scheduler(context.experiment, observer.trials.values()),
            num_samples=left,
            max_concurrent_trials=search.concurrency,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name="state",
            storage_path=str(state),
            # Failures of the waiting process. Errors of stages do not reach Tune.
            failure_config=tune.FailureConfig(max_failures=context.experiment.settings.resources.retries),
            callbacks=[observer],
            stop=stopper,
            verbose=0,
            log_to_file=False,
        ),
    )
    try:
        tuner.fit()
        observer.close()
    finally:
        shutil.rmtree(state, ignore_errors=True)  # a search resumes from its storage, never from this


def _controls(
    context: TrialContext,
    broker: Any,  # noqa: ANN401 - an actor handle
    dense: DenseControl,
    observer: Observer,
    stopper: Stopper,
    emit: Callable[[Event], None],
) -> tuple[list[ControlRecord], list[EpochsRecord]]:
    wanted, trials = context.experiment.settings.controls, list(observer.trials.values())
    found = [control] if (control := dense.result(stopper.stop_all)) is not None else []
    best = ranked(trials)
    if best:
        try:
            regain_weights(context, BrokerRunner(broker, context.store_url, "driver"), best[0])
        except TicketsError as error:  # the summary then says that the ticket could not be saved
            emit(Note(str(error)))
    if wanted.random:
        found += random_controls(context, broker, trials, emit, stopper.stop_all)
    if not wanted.epochs:
        return found, []
    return found, epoch_records(context, broker, best[0] if best else None, found, emit, stopper.stop_all)


def _close(
    context: TrialContext,
    results: Results,
    observer: Observer,
    controls: list[ControlRecord],
    epochs: list[EpochsRecord],
    tracker: AnyTracker,
    stopper: Stopper,
    seconds: float,
) -> Finished:
    trials = sorted(observer.trials.values(), key=lambda trial: trial.number)
    status = _status(stopper)
    summary = close_search(
        context.experiment,
        context.world.threats,
        results,
        trials,
        controls,
        status,
        seconds,
        stopper.reason,
        stopper.ledger.spent,
        epochs,
    )
    pictures, undrawn = draw_pictures(results, summary)
    report = leave_report(results.folder)
    files = [path for path in (results.folder / "summary.json", results.substitutions) if path.exists()]
    tracker.finish(summary, {path.name: path for path in files} | pictures | report.files)
    tracker.register(summary, winning_tickets(results, context.experiment.settings))
    if status == "failed":
        last = next((trial.error for trial in reversed(trials) if trial.error), "no reason was recorded")
        raise SearchStopped(
            f"the search was stopped: {stopper.reason}. The last error: {last}\n"
            f"Finished work is in {results.folder}; fix the cause and run: tune-tickets resume {results.folder}"
        )
    return Finished(summary, (*undrawn, *report.problems, *tracker.problems))


def _status(stopper: Stopper) -> SearchStatus:
    if stopper.reason in (None, INTERRUPTED):
        return "finished" if stopper.reason is None else "interrupted"
    return "stopped" if stopper.out_of_budget else "failed"


def _resumed(searcher: TicketSearch, records: list[TrialRecord], retry_errors: bool) -> Resumed:
    """Return what the search resumes from. A trial that is retried does not count as done."""
    done = [record for record in records if not (retry_errors and record.status == "failed")]
    trials = [
        TrialFinished(each.number, each.status, each.values, {}, feasible=each.feasible is not False) for each in done
    ]
    return Resumed(searcher.found.describe(), tuple(trials))


def _hear(emit: Callable[[Event], None], failures: list[str], event: Event) -> None:
    """Pass on an event of a control. A failed control is also named at the end."""
    if isinstance(event, TrialFinished) and event.status == "failed":
        failures.append(f"The control {event.number} failed: {event.headline}")
    emit(event)


def _labels(observer: Observer) -> Any:  # noqa: ANN401 - a function of the waiter's name
    def label(waiter: str) -> int | str | None:
        if waiter.startswith(("dense", "random", "epochs")):
            return waiter
        try:
            return observer.number_of(waiter)
        except KeyError:
            return None

    return label


@contextmanager
def _ending_on_signals(stopper: Stopper) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM end the search in order, and the second one at once."""

    def end(number: int, frame: FrameType | None) -> None:
        if stopper.reason is not None:
            raise KeyboardInterrupt
        stopper.reason = INTERRUPTED

    if threading.current_thread() is not threading.main_thread():  # Python only delivers signals to the main thread
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
