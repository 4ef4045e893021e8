"""Files of trials for people and for MLflow: masks, attacked texts, settings and the best ticket."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO, StringIO
from pathlib import Path

from ruamel.yaml import YAML

from tune_tickets.attacks.records import AttackRecord, read_parquet, write_parquet
from tune_tickets.config import Settings
from tune_tickets.engine.stage import StageResult
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError
from tune_tickets.methods.stages import ATTACKED_FILE, MASK_FILE, TICKET_FILE, Draw
from tune_tickets.results.folder import Results
from tune_tickets.results.records import Outcome, StageRecord
from tune_tickets.tickets.unstructured import Mask


def trial_artifacts(
    name: str, stages: Sequence[StageRecord], settings: Settings, store: Store, results: Results
) -> dict[str, Path]:
    """Write the files of a trial or control; return path in the MLflow run -> file in the results folder."""
    folder = results.folder / "trials" / name
    folder.mkdir(parents=True, exist_ok=True)
    found = {"settings.yaml": _write(folder / "settings.yaml", _yaml(settings))}
    for _, content in _contents(stages, store, MASK_FILE):
        found[TICKET_FILE] = _write(folder / TICKET_FILE, content)
    return found | _attacked_files(name, stages, store, results)


def transfer_artifacts(name: str, outcome: Outcome | None, store: Store, results: Results) -> dict[str, Path]:
    """Write the attacked texts of every further task; return them in the same form."""
    found: dict[str, Path] = {}
    for transfer in outcome.transfers if outcome is not None else ():
        files = _attacked_files(f"{name}-{transfer.name}", transfer.stages, store, results)
        found |= {f"transfer/{transfer.name}/{file}": path for file, path in files.items()}
    return found


def winning_tickets(results: Results, settings: Settings) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Return the file of the best ticket and the columns it reads, by task; the main task is ''."""
    own = {"": (results.ticket, settings.task.columns)}
    further = {name: (results.ticket_on(name), transfer.task.columns) for name, transfer in settings.transfer.items()}
    return {task: found for task, found in (own | further).items() if found[0].is_file()}


def stored_mask(digest: str, store: Store) -> Mask | None:
    """The mask that a stage drew; None if the store does not have it."""
    drawn = store.find(Draw.name, digest)
    return None if drawn is None else Draw.mask_of(store, drawn)


def _attacked_files(name: str, stages: Sequence[StageRecord], store: Store, results: Results) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for threat, records in attacked_records(stages, store).items():
        file = threat.replace("/", "-").replace(":", "-")
        path = results.attacked / f"{name}-{file}.parquet"
        write_parquet(records, path)
        found[f"attacked/{file}.parquet"] = path
    return found


def attacked_records(stages: Sequence[StageRecord], store: Store) -> dict[str, list[AttackRecord]]:
    """Return what each attack did to every row, by threat model; shards are joined."""
    found: dict[str, list[AttackRecord]] = {}
    for result, content in _contents(stages, store, ATTACKED_FILE):
        found.setdefault(str(result.record["threat"]), []).extend(read_parquet(BytesIO(content)))
    return found


def _contents(stages: Sequence[StageRecord], store: Store, file: str) -> Iterator[tuple[StageResult, bytes]]:
    """The files of that name among the results of stages."""
    for stage in stages:
        # Damaged files are skipped here: `tune-tickets store verify` reports them.
        with suppress(StoreError):
            result = store.find(stage.name, stage.digest)
            if result is not None and file in result.files:
                content = store.read(result, file)
                yield result, content


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _yaml(settings: Settings) -> bytes:
    stream = StringIO()
    YAML().dump(settings.model_dump(mode="json"), stream)
    return stream.getvalue().encode()
