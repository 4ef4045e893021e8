"""MLflow runs that are found by their tags or created once, and written without duplicates."""

import logging
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag

from tune_tickets.errors import TicketsError
from tune_tickets.results.records import Outcome, Summary, TrialRecord
from tune_tickets.tracking.naming import PARAM_LENGTH, TAG_LENGTH, batches, finite, flatten, legal_name, shorten
from tune_tickets.tracking.place import KIND, KIND_TAG, VIEW_TAG, make_whole, view_state
from tune_tickets.tracking.protocol import RowsRecord, threat_tags
from tune_tickets.tracking.registry import Registry

EXPERIMENT = "tickets.experiment"
CONFIG = "tickets.config"
SEARCH = "tickets.search"
"""Distinguishes searches of the same configuration on one server."""
ROLE = "tickets.role"
KEY = "tickets.key"
PARENT = "mlflow.parentRunId"
METHODS = {"dense": "finetune", "random": "random"}
"""The methods of controls."""
PACKAGES = ("tune_tickets", "torch", "transformers", "textattack", "ray", "optuna", "mlflow")


def description(settings: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, str]:
    """Return method, model, task and versions as tags. A trial's `params` override the settings."""
    flat = {**flatten(settings), **params}
    paths = {"method": "method.kind", "model": "model.source", "task": "task.source"}
    tags = {name: str(flat[path]) for name, path in paths.items() if path in flat}
    return tags | {f"version.{package}": found for package, found in _installed().items()}


def outcome_tags(outcome: Outcome | None) -> dict[str, str]:
    """Return flags, notes and threat models (name and fingerprint) as tags."""
    if outcome is None:
        return {}
    threats = {f"threat.{figures.threat}": figures.fingerprint for figures in outcome.attacks}
    return {"flags": ", ".join(outcome.flags), "notes": "; ".join(outcome.notes), **threats}


def trial_tags(trial: TrialRecord) -> dict[str, str]:
    """Return how a trial ended, as tags."""
    tags = {"status": trial.status, "trial": str(trial.number), "title": trial.title}
    tags["uses_ood_information"] = str(trial.uses_ood_information).lower()
    if trial.feasible is not None:
        tags["feasible"] = str(trial.feasible).lower()
    # The last lines of a traceback matter most. An empty tag clears that of an earlier attempt.
    tags["error"] = (trial.error or "")[-TAG_LENGTH:]
    return tags | outcome_tags(trial.outcome)


def summary_tags(summary: Summary) -> dict[str, str]:
    """Return the final tags of the parent run: status, winner, threat models, versions."""
    tags = {
        "status": summary.status,
        "selected": summary.selected.winner or "",
        "front": ", ".join(summary.front),
        "uses_ood_information": str(summary.uses_ood_information).lower(),
        "mlflow.note.content": verdict_text(summary),
    }
    if summary.verdict is not None:
        tags["verdict"] = summary.verdict.kind
    return (
        tags
        | threat_tags(summary.threat_models)
        | {f"version.{name}": found for name, found in summary.versions.items()}
    )


def verdict_text(summary: Summary) -> str:
    """Return the sentence of the verdict, if there is one, then the reason of the choice."""
    return "\n\n".join([*([summary.verdict.sentence] if summary.verdict else []), summary.selected.reason])


def _installed() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a driver may run from a source tree that is not installed
            continue
    return found


_DIGEST_LENGTH = 36  # MLflow rejects more
REMOTE = ("http://", "https://", "databricks")
PAGE = 1000


@dataclass
class KnownRun:
    """What is known of one run: its latest values, and its curves by step."""

    id: str
    status: str
    tags: dict[str, str]
    params: dict[str, str]
    latest: dict[str, float]
    inputs: set[tuple[str, str]] = field(default_factory=set)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)


class RunBook:
    """One MLflow experiment, used through an explicit client: no global state, no active run."""

    def __init__(self, uri: str, artifact_root: Path, experiment: str) -> None:
        for noisy in ("alembic", "mlflow.tracking"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # Its errors print a whole traceback; the backlog reports them in one line.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        make_whole(uri, partial(_make_database, artifact_root))
        self._client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        location = None if uri.startswith(REMOTE) else artifact_root.resolve().as_uri()
        self._experiment_id = self._open_experiment(experiment, location)
        self._shown: set[str] = set()
        self.registry = Registry(self._client, self._experiment_id)

    def _open_experiment(self, name: str, location: str | None) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is None:
            return self._client.create_experiment(name, artifact_location=location, tags={KIND_TAG: KIND})
        if found.lifecycle_stage != "active":
            raise TicketsError(
                f"The MLflow experiment {name!r} was deleted: restore it (mlflow experiments restore "
                f"--experiment-id {found.experiment_id}) or choose another name in tracking.experiment."
            )
        return found.experiment_id

    def show_columns(self, objectives: Sequence[str], params: Iterable[str]) -> None:
        """Add columns for these objectives and params to the run list."""
        names = {legal_name(name) for name in params}
        if not names <= self._shown:
            self._shown |= names
            self._client.set_experiment_tag(self._experiment_id, VIEW_TAG, view_state(objectives, self._shown))

    def search(self, tag: str, value: str) -> list[KnownRun]:
        """Return all runs of the experiment with that tag, oldest first."""
        known: list[KnownRun] = []
        token: str | None = None
        while True:
            page = self._client.search_runs(
                [self._experiment_id],
                f"tags.`{tag}` = '{value}'",
                max_results=PAGE,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            known += [_known(run) for run in page]
            token = page.token
            if not token:
                return known

    def create(self, name: str, tags: Mapping[str, str]) -> KnownRun:
        """Create a run that has its identifying tags from the start."""
        return _known(self._client.create_run(self._experiment_id, tags=_legal_tags(tags), run_name=name))

    def write_params(self, run: KnownRun, params: Mapping[str, Any]) -> None:
        """Add missing params. MLflow does not allow changes."""
        values = {legal_name(key): shorten(value, PARAM_LENGTH) for key, value in params.items()}
        fresh = [Param(key, value) for key, value in values.items() if key not in run.params]
        for batch in batches(fresh):
            self._client.log_batch(run.id, params=batch, synchronous=True)
            run.params |= {param.key: param.value for param in batch}

    def write_tags(self, run: KnownRun, tags: Mapping[str, str]) -> None:
        """Set the tags that differ."""
        fresh = [RunTag(key, value) for key, value in _legal_tags(tags).items() if run.tags.get(key, "") != value]
        for batch in batches(fresh):
            self._client.log_batch(run.id, tags=batch, synchronous=True)
            run.tags |= {tag.key: tag.value for tag in batch}

    def write_inputs(self, run: KnownRun, rows: Sequence[RowsRecord]) -> None:
        """Add the rows that the run does not list yet."""
        named = [(record.name, record.digest[:_DIGEST_LENGTH]) for record in rows]
        fresh = [
            DatasetInput(
                Dataset(*key, source_type="tune_tickets", source=record.source, profile=record.profile()),
                [InputTag("mlflow.data.context", record.context)],
            )
            for key, record in zip(named, rows, strict=True)
            if key not in run.inputs
        ]
        if fresh:
            self._client.log_inputs(run.id, datasets=fresh)
            run.inputs |= set(named)

    def write_points(self, run: KnownRun, metrics: Mapping[str, float], step: int) -> None:
        """Add points to curves. A metric that has a value at `step` keeps it."""
        points = {key: (value, step) for key, value in finite(metrics).items()}
        self._write(run, {key: point for key, point in points.items() if step not in self._curve(run, key)})

    def write_finals(self, run: KnownRun, metrics: Mapping[str, float]) -> None:
        """Make these the latest values: each is added after the end of its curve, unless it is there already."""
        changed = {key: value for key, value in finite(metrics).items() if run.latest.get(key) != value}
        self._write(run, {key: (value, max(self._curve(run, key), default=-1) + 1) for key, value in changed.items()})

    def _curve(self, run: KnownRun, key: str) -> dict[int, float]:
        if key in run.latest and key not in run.curves:  # started by an earlier driver
            history = self._client.get_metric_history(run.id, key)
            run.curves[key] = {point.step: point.value for point in history}
        return run.curves.setdefault(key, {})

    def _write(self, run: KnownRun, points: Mapping[str, tuple[float, int]]) -> None:
        now = int(time.time() * 1000)
        fresh = [Metric(key, value, now, step) for key, (value, step) in points.items()]
        for batch in batches(fresh):
            self._client.log_batch(run.id, metrics=batch, synchronous=True)
            for point in batch:
                curve = self._curve(run, point.key)
                curve[point.step] = point.value
                run.latest[point.key] = curve[max(curve)]

    def set_status(self, run: KnownRun, status: str) -> None:
        """Set RUNNING, FINISHED, FAILED or KILLED. The end time is written once."""
        if status == run.status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status=status)
        else:
            self._client.set_terminated(run.id, status=status)
        run.status = status

    def attach(self, run: KnownRun, artifacts: Mapping[str, Path]) -> None:
        """Copy files and folders into the run under these names. A second copy replaces the first."""
        for name, path in artifacts.items():
            if not path.exists():
                raise FileNotFoundError(f"artifact {name!r}: {path} does not exist")
            if path.is_dir():
                self._client.log_artifacts(run.id, str(path), artifact_path=name)
            else:
                self._attach_file(run, PurePosixPath(name), path)

    def _attach_file(self, run: KnownRun, name: PurePosixPath, path: Path) -> None:
        folder = None if name.parent == PurePosixPath(".") else str(name.parent)
        # MLflow uses the file name on disk; the link has the name that readers expect.
        with tempfile.TemporaryDirectory() as scratch:
            link = Path(scratch) / name.name
            link.symlink_to(path.resolve())
            self._client.log_artifact(run.id, str(link), artifact_path=folder)

    def attach_text(self, run: KnownRun, name: str, text: str) -> None:
        """Write `text` as an artifact."""
        self._client.log_text(run.id, text, name)

    def attach_yaml(self, run: KnownRun, name: str, tree: Mapping[str, Any]) -> None:
        """Write `tree` as a YAML artifact."""
        self._client.log_dict(run.id, dict(tree), name)


def _make_database(artifact_root: Path, uri: str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(uri, artifact_root.resolve().as_uri()).engine.dispose()  # type: ignore[no-untyped-call]


def _known(run: Run) -> KnownRun:
    inputs = {(one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs} if run.inputs else set()
    tags, params, metrics = dict(run.data.tags), dict(run.data.params), dict(run.data.metrics)
    return KnownRun(run.info.run_id, run.info.status, tags, params, metrics, inputs)


def _legal_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {legal_name(key): shorten(value, TAG_LENGTH) for key, value in tags.items()}
