"""The results folder: one experiment's configuration, databases, summary, attacked texts and best ticket."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path

from filelock import FileLock, Timeout
from ruamel.yaml import YAML

from tune_tickets.config import Experiment, Settings, load_experiment
from tune_tickets.errors import ConfigError, TicketsError
from tune_tickets.files import write_atomic
from tune_tickets.results.records import TrialRecord

DEFAULT_ROOT = Path("results")


class _Inside:
    """The path of a file in the results folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, results: "Results", owner: object) -> Path:
        return results.folder / self._name


@dataclass(frozen=True)
class Results:
    """The paths inside a results folder."""

    folder: Path
    store_url: str

    config = _Inside("config.yaml")
    """The resolved configuration."""
    optuna = _Inside("optuna.db")
    """Optuna's database."""
    mlflow = _Inside("mlflow.db")
    """MLflow's database."""
    ticket = _Inside("best_ticket.safetensors")
    """The best ticket."""
    attacked = _Inside("attacked")
    """Folder of the attacked texts, one parquet file per trial and threat model."""
    substitutions = _Inside("substitutions.txt")
    """A sample of what the attacks changed, for a person to judge."""
    pictures = _Inside("pictures")
    """Folder of the pictures, each as SVG and PNG."""
    confirmation = _Inside("confirm.json")
    """The metrics of the best tickets on report rows, written by `confirm`."""
    report = _Inside("report.html")
    """The report for a browser; the same folder holds it in Markdown."""
    spent = _Inside("spent.json")
    """The budget that all sessions of the search have spent."""
    trials = _Inside("trials.jsonl")
    """Finished trials, one JSON record per line."""

    def ticket_on(self, task: str) -> Path:
        """The best ticket as trained on a further task."""
        return self.folder / ticket_name(task)

    @property
    def search_id(self) -> str:
        """The id of this search, the same in all its sessions."""
        return self._identity.read_text(encoding="utf-8") if self._identity.exists() else ""

    _identity = _Inside(".search")

    def check(self, experiment: Experiment, resume: bool) -> None:
        """Refuse to mix experiments.

        Raises:
            ConfigError: the folder is not new, or does not hold the experiment to resume.
        """
        if self.config.exists():
            if not resume:
                raise ConfigError(
                    f"{self.folder} holds an experiment already. Resume it with --resume, "
                    "or choose another folder with --output"
                )
            if load_experiment(self.config).digest != experiment.digest:
                raise ConfigError(
                    f"{self.config} differs from {experiment.source.file} with these overrides: "
                    "only the same experiment can be resumed. Choose another folder with --output "
                    "(finished stages are reused if it shares the store)"
                )
        elif resume:
            raise ConfigError(f"{self.folder} holds no experiment to resume; leave out --resume to start one")

    def open(self, experiment: Experiment) -> None:
        """Create the folder."""
        self.attacked.mkdir(parents=True, exist_ok=True)
        if not self._identity.exists():
            write_atomic(self._identity, uuid.uuid4().hex)
        write_atomic(self.config, to_yaml(experiment))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock out other drivers during the block. The system releases the lock of a dead process.

        Raises:
            TicketsError: another process holds the lock.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise TicketsError(
                f"another process runs or confirms the search in {self.folder}: both would run the same trials. "
                "Wait until it has ended, or stop it"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def add_trial(self, trial: TrialRecord) -> None:
        """Append a finished trial. Its line is on disk when this returns."""
        with self.trials.open("a", encoding="utf-8") as stream:
            if not _ends_a_line(self.trials):
                stream.write("\n")  # a crash has cut the last line: keep this one readable
            stream.write(trial.model_dump_json() + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def read_trials(self) -> list[TrialRecord]:
        """Return the trials of earlier sessions. Incomplete or damaged lines are skipped."""
        if not self.trials.exists():
            return []
        found: dict[str, TrialRecord] = {}
        for line in self.trials.read_bytes().split(b"\n"):
            try:
                record = TrialRecord.model_validate(json.loads(line))
            except ValueError:
                continue
            found[record.id] = record
        return list(found.values())


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"


def place_results(experiment: Experiment, output: Path | None) -> Results:
    """Return the results folder of an experiment: `results/<name>-<time>` with the store `results/store` by default."""
    if output is None:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        folder = DEFAULT_ROOT / f"{experiment.settings.name}-{stamp}"
        store = DEFAULT_ROOT / "store"
    else:
        folder, store = output, output / "store"
    url = experiment.settings.store or str(store.resolve())
    return Results(folder.resolve(), url)


def finished_results(folder: Path, settings: Settings, store: str | None) -> Results:
    """Return the folder of an earlier search with its store: the given one, or the one in the folder or next to it.

    Raises:
        ConfigError: there is no store.
    """
    folder = folder.expanduser().resolve()
    beside = [place for place in (folder / "store", folder.parent / "store") if place.is_dir()]
    url = store or settings.store or (str(beside[0]) if beside else None)
    if url is None:
        raise ConfigError(f"the stage store of {folder} is neither in it nor next to it: name it with --store")
    return Results(folder, url)


def ticket_name(task: str) -> str:
    """Return the file name of the best ticket as trained on a further task."""
    return f"best_ticket.{task}.safetensors"


def best_ticket(source: str) -> str:
    """Return the best ticket of a results folder, or the source itself if it is something else.

    Raises:
        TicketsError: the folder has no best ticket.
    """
    folder = Path(source).expanduser()
    ticket = Results(folder, store_url="").ticket
    if not ticket.is_file() and (folder / "summary.json").is_file():
        raise TicketsError(
            f"{source} holds no best ticket: no trial of that search may win. The closing table and selected.reason in "
            "its summary.json say why"
        )
    if not ticket.is_file() and Results(folder, store_url="").config.is_file():
        raise TicketsError(
            f"{source} holds no best ticket yet: its search has not ended. Resume it: tune-tickets resume {source}"
        )
    return str(ticket) if ticket.is_file() else source


def experiment_beside(ticket: str) -> Path | None:
    """Return the configuration of the search that made a ticket, if the ticket is still in its results folder."""
    path = Path(ticket).expanduser()
    config = Results(path.parent, store_url="").config
    return config if path.is_file() and config.is_file() else None


def to_yaml(experiment: Experiment) -> str:
    """The resolved configuration as YAML that runs again."""
    stream = StringIO()
    yaml = YAML()
    yaml.width = 120
    yaml.dump(experiment.resolved(), stream)
    return stream.getvalue()
