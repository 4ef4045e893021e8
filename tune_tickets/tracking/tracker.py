"""Logs a search to MLflow: one parent run per experiment, one nested run per trial and control.

Runs are identified by tags (experiment, config digest, search, trial id). A repeated call, or a new tracker after a
crash, continues the existing runs.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tune_tickets.errors import TicketsError
from tune_tickets.results.metrics import headline
from tune_tickets.results.records import (
    Confirmation,
    ConfirmedModel,
    ControlRecord,
    EpochsRecord,
    SearchStatus,
    SeedRun,
    Summary,
    TrialRecord,
)
from tune_tickets.tracking import runs as tagging
from tune_tickets.tracking.naming import coordinates, flatten, legal_name, without_passwords
from tune_tickets.tracking.protocol import AnyTracker, SearchInputs, threat_tags
from tune_tickets.tracking.registry import Winner, model_name
from tune_tickets.tracking.runs import KnownRun, RunBook

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 60.0  # a server that does not answer must not delay the search at every epoch
ATTEMPTS = 3  # then a write waits for the end of the search, so that it does not block the others


@dataclass
class _Write:
    what: str
    action: Callable[[], None]
    attempts: int = 0
    error: str = "not tried yet"


class Backlog:
    """Runs idempotent writes at once and in order. A write that fails is kept and retried later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._writes: list[_Write] = []
        self._quiet_until = float("-inf")

    def run(self, what: str, action: Callable[[], None]) -> None:
        """Run `action` after all waiting writes. Never raises."""
        with self._lock:
            self._writes.append(_Write(what, action))
            if self._clock() < self._quiet_until:
                return
            for write in [write for write in self._writes if write.attempts < ATTEMPTS]:
                if not self._try(write):
                    self._quiet_until = self._clock() + PAUSE_SECONDS
                    return

    def settle(self) -> None:
        """Try all waiting writes once more."""
        with self._lock:
            for write in list(self._writes):
                self._try(write)

    @property
    def problems(self) -> tuple[str, ...]:
        """What has not reached MLflow, one sentence each."""
        with self._lock:
            return tuple(f"{write.what} is missing in MLflow: {write.error}" for write in self._writes)

    def _try(self, write: _Write) -> bool:
        try:
            write.action()
        except Exception as error:  # the search continues whatever a tracking store does
            write.error = without_passwords(f"{type(error).__name__}: {error}")
            if write.attempts == 0:
                logger.warning("MLflow did not accept %s; this will be retried: %s", write.what, write.error)
            write.attempts += 1
            return False
        self._writes.remove(write)
        return True


TRIAL_STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
PARENT_STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "stopped": "FINISHED", "failed": "FAILED"}


class Tracker(AnyTracker):
    """The constructor raises if the store cannot be used. Later, failed writes are retried and named in `problems`."""

    def __init__(
        self,
        uri: str,
        artifact_root: Path,
        experiment: str,
        settings: dict[str, Any],
        config_digest: str,
        search: str = "",
    ) -> None:
        self._settings: dict[str, Any] = without_passwords(settings)
        self._identity = {
            tagging.EXPERIMENT: str(settings.get("name", experiment)),
            tagging.CONFIG: config_digest,
            tagging.SEARCH: search,
        }
        self._name, self._inputs = experiment, SearchInputs()
        self._registered: dict[str, str] = {}
        self._register_beaten = bool((settings.get("tracking") or {}).get("register_beaten"))
        self._backlog = Backlog()
        objective = settings.get("objective", {})
        self._objectives = _objective_names(len(objective["metrics"]) if objective.get("kind") == "pareto" else 1)
        try:
            artifact_root.parent.mkdir(parents=True, exist_ok=True)
            self._book = RunBook(uri, artifact_root, experiment)
            self._parent, self._children = self._open()
        except TicketsError:
            raise
        except Exception as error:
            raise TicketsError(
                f"MLflow cannot keep this search in {without_passwords(uri)}: {without_passwords(str(error))}\n"
                "Set tracking.uri to a store that is writable, or tracking.mlflow to false."
            ) from None  # the cause would show the password

    def _open(self) -> tuple[KnownRun, dict[str, KnownRun]]:
        mine = [
            run
            for run in self._book.search(tagging.CONFIG, self._identity[tagging.CONFIG])
            if all(run.tags.get(tag, "") == value for tag, value in self._identity.items())
        ]
        parents = [run for run in mine if run.tags.get(tagging.ROLE) == "experiment"]
        parent = parents[0] if parents else self._create(self._identity[tagging.EXPERIMENT], "experiment", {}, {})
        self._book.set_status(parent, "RUNNING")
        self._book.write_params(parent, flatten(self._settings))
        self._book.attach_yaml(parent, "settings.yaml", self._settings)
        children = [run for run in mine if run.tags.get(tagging.PARENT) == parent.id]
        return parent, {run.tags[tagging.KEY]: run for run in children}

    def _create(self, name: str, role: str, extra: Mapping[str, str], params: Mapping[str, Any]) -> KnownRun:
        described = tagging.description(self._settings, params)
        return self._book.create(name, self._identity | {tagging.ROLE: role, **described, **extra})

    def _child(self, role: str, key: str, name: str, params: Mapping[str, Any]) -> KnownRun:
        if key not in self._children:
            # A request that timed out may still have created the run.
            found = [run for run in self._book.search(tagging.KEY, key) if run.tags[tagging.PARENT] == self._parent.id]
            tags = {tagging.KEY: key, tagging.PARENT: self._parent.id}
            self._children[key] = found[0] if found else self._create(name, role, tags, params)
        return self._children[key]

    def log_inputs(self, inputs: SearchInputs) -> None:
        self._inputs = inputs
        self._backlog.run("the rows and threat models", lambda: self._feed(self._parent))

    def _feed(self, run: KnownRun) -> None:
        self._book.write_inputs(run, self._inputs.rows)
        self._book.write_tags(run, threat_tags(self._inputs.threats))

    def _trial(self, trial_id: str, number: int, params: Mapping[str, Any]) -> KnownRun:
        run = self._child("trial", trial_id, f"trial {number}", params)
        self._book.write_params(run, coordinates(self._settings, params))
        self._book.show_columns(self._objectives, params)
        self._feed(run)
        return run

    @property
    def problems(self) -> tuple[str, ...]:
        return self._backlog.problems

    def has_ended(self, trial_id: str) -> bool:
        return trial_id in self._children and self._children[trial_id].status in ("FINISHED", "FAILED")

    def start_trial(self, trial_id: str, number: int, params: Mapping[str, Any]) -> None:
        def write() -> None:
            run = self._trial(trial_id, number, params)
            if run.tags.get("status") != "complete":
                self._book.set_status(run, "RUNNING")
                self._book.write_tags(run, {"status": "running", "trial": str(number)})

        self._backlog.run(f"the start of trial {number}", write)

    def log(self, trial_id: str, metrics: Mapping[str, float], step: int) -> None:
        point = dict(metrics)  # the caller may change its own while this waits

        def write() -> None:
            self._book.write_points(self._children[trial_id], point, step)

        self._backlog.run(f"step {step} of trial {trial_id}", write)

    def finish_trial(self, trial: TrialRecord, artifacts: Mapping[str, Path]) -> None:
        def write() -> None:
            self._book.attach(self._trial(trial.id, trial.number, trial.params), artifacts)
            self._settle_trial(trial)

        self._backlog.run(f"the end of trial {trial.number}", write)

    def _settle_trial(self, trial: TrialRecord) -> KnownRun:
        run = self._trial(trial.id, trial.number, trial.params)
        figures = trial.outcome.metrics() if trial.outcome else {}
        known = trial.metrics | figures | _objective(trial) | _cost(trial)
        self._book.write_finals(run, known | {"seconds": trial.seconds})
        self._book.write_tags(run, tagging.trial_tags(trial))
        self._book.set_status(run, TRIAL_STATUS[trial.status])
        return run

    def log_control(self, control: ControlRecord, artifacts: Mapping[str, Path]) -> None:
        def write() -> None:
            run = self._settle_control(control)
            self._book.attach(run, artifacts)

        self._backlog.run(f"the control {control.name}", write)

    def _settle_control(self, control: ControlRecord) -> KnownRun:
        run = self._child("control", f"control/{control.name}", control.name, {})
        self._feed(run)
        self._book.write_finals(run, control.outcome.metrics() | _cost(control))
        named = {"control": control.kind, "title": control.title, "method": tagging.METHODS[control.kind]}
        named["like"] = control.like or ""
        self._book.write_tags(run, named | tagging.outcome_tags(control.outcome))
        self._book.set_status(run, "FINISHED")
        return run

    def _settle_epochs(self, record: EpochsRecord) -> None:
        """Log attacks after every epoch as curves with names of their own."""
        key = "control/dense" if record.model == "dense" else record.model
        for figures in record.epochs:
            metrics = {f"epoch/{name}": value for name, value in headline(figures.metrics()).items()}
            self._book.write_points(self._children[key], metrics, figures.epoch)

    def finish(self, summary: Summary, artifacts: Mapping[str, Path]) -> None:
        self._backlog.settle()
        self._backlog.run("the summary", lambda: self._settle_all(summary))
        self._backlog.run("the files of the experiment", lambda: self._book.attach(self._parent, artifacts))
        self._backlog.settle()

    def _settle_all(self, summary: Summary) -> None:
        for trial in summary.trials:
            run = self._settle_trial(trial)
            marks = {"selected": trial.id == summary.selected.winner, "pareto": trial.id in summary.front}
            self._book.write_tags(run, {name: str(mark).lower() for name, mark in marks.items()})
            if trial.id == summary.selected.trial and trial.outcome:
                self._book.write_finals(self._parent, trial.outcome.metrics() | _objective(trial))
        for control in summary.controls:
            self._settle_control(control)
        for record in summary.epochs:
            self._settle_epochs(record)
        self._close_strays()
        self._book.write_tags(self._parent, tagging.summary_tags(summary))
        self._book.attach_text(self._parent, "summary.json", summary.model_dump_json(indent=2))
        self._book.set_status(self._parent, PARENT_STATUS[summary.status])

    def register(self, summary: Summary, tickets: Mapping[str, tuple[Path, tuple[str, ...]]]) -> None:
        trial = next((trial for trial in summary.trials if trial.id == summary.selected.trial), None)
        if trial is None or summary.status == "interrupted":  # the best so far may not be the winner
            return
        for task, (path, columns) in tickets.items():
            name = model_name(f"{self._name}.{task}" if task else self._name)
            self._backlog.run(
                f"{name} in the model registry", partial(self._register, name, task, summary, trial, path, columns)
            )
        self._backlog.settle()

    def _register(
        self, name: str, task: str, summary: Summary, trial: TrialRecord, path: Path, columns: tuple[str, ...]
    ) -> None:
        run = self._trial(trial.id, trial.number, trial.params)
        figures = {name: f"{value:.4g}" for name, value in headline(_measured_on(task, trial)).items()}
        tags = {"trial": trial.id, "title": trial.title, **self._identity, **figures}
        said = tagging.verdict_text(summary)
        said = f"Trained for the task {task}. On the search's own: {said}" if task else said
        is_best = not summary.selected.beaten or self._register_beaten
        winner = Winner(path, columns, run.id, said, _registry_tags(tags), is_best)
        self._registered[name] = self._book.registry.register(name, winner)
        registered = ", ".join(f"{model} {version}" for model, version in self._registered.items())
        for known in (run, self._parent):
            self._book.write_tags(known, {"registered": registered})

    def log_confirmation(self, confirmation: Confirmation, status: SearchStatus, artifacts: Mapping[str, Path]) -> None:
        def write() -> None:
            for model in confirmation.models:
                for run in model.runs:
                    self._settle_seed(model, run)
            self._book.attach(self._parent, artifacts)
            self._book.set_status(self._parent, PARENT_STATUS[status])

        self._backlog.run("the confirmation", write)
        self._backlog.settle()

    def _settle_seed(self, model: ConfirmedModel, seeded: SeedRun) -> None:
        name = f"{model.name}, seed {seeded.seed}"
        run = self._child("confirm", f"confirm/{model.name}/{seeded.seed}", name, model.params)
        self._book.write_finals(run, {f"report/{name}": value for name, value in seeded.metrics.items()})
        tags = {"confirmed": model.name, "kind": model.kind, "seed": str(seeded.seed), "title": model.title}
        if model.kind in tagging.METHODS:
            tags["method"] = tagging.METHODS[model.kind]
        self._book.write_tags(run, tags | {"status": seeded.status, "error": seeded.error or ""})
        self._book.set_status(run, "FINISHED" if seeded.status == "complete" else "FAILED")

    def _close_strays(self) -> None:
        # Trials of a killed driver that were not continued.
        for run in self._children.values():
            if run.status == "RUNNING":
                self._book.write_tags(run, {"status": "interrupted"})
                self._book.set_status(run, "KILLED")


def _objective(trial: TrialRecord) -> dict[str, float]:
    values = trial.values or ()
    return dict(zip(_objective_names(len(values)), values, strict=True))


def _measured_on(task: str, trial: TrialRecord) -> dict[str, float]:
    """Return the metrics on the main task, or on a further one."""
    if not task:
        return trial.metrics
    further = trial.outcome.transfers if trial.outcome is not None else ()
    return next((found.outcome.metrics() for found in further if found.name == task), {})


def _registry_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {legal_name(key): value for key, value in tags.items() if value}


def _objective_names(number: int) -> tuple[str, ...]:
    return ("objective",) if number == 1 else tuple(f"objective/{index}" for index in range(number))


def _cost(record: TrialRecord | ControlRecord) -> dict[str, float]:
    return record.cost.metrics() if record.cost else {}
