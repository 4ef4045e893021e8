"""Files that leave the store for people: masks, attacked texts and the settings of a trial, and the best ticket."""

from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO, StringIO
from pathlib import Path

from ruamel.yaml import YAML

from tune_tickets.attacks.figures import read_parquet
from tune_tickets.attacks.rows import AttackRecord
from tune_tickets.config import Settings
from tune_tickets.errors import StoreError
from tune_tickets.records import StageRecord
from tune_tickets.trial.store import Store
from tune_tickets.tuning.results import Results

MASK_FILE = "mask.safetensors"
ATTACKED_FILE = "attacked.parquet"
TICKET_FILE = "ticket.safetensors"


def trial_artifacts(
    name: str, stages: Sequence[StageRecord], settings: Settings, store: Store, results: Results
) -> dict[str, Path]:
    """What a trial or control leaves behind, as path in the MLflow run -> file in the results folder."""
    folder = results.folder / "trials" / name
    folder.mkdir(parents=True, exist_ok=True)
    found = {"settings.yaml": _write(folder / "settings.yaml", _yaml(settings))}
    for stage in stages:
        # What cannot be read back is left out here: the trial itself has failed on it and says so.
        with suppress(StoreError):
            found |= _stage_artifacts(name, stage, folder, store, results)
    return found


def attacked_records(stages: Sequence[StageRecord], store: Store) -> dict[str, list[AttackRecord]]:
    """What the attacks among the stages did to every row, by the fingerprint of their threat model."""
    found = {}
    for stage in stages:
        with suppress(StoreError):  # as above
            result = store.find(stage.name, stage.digest)
            if result is not None and ATTACKED_FILE in result.files:
                records = read_parquet(BytesIO(store.read(result, ATTACKED_FILE)))
                found[str(result.record["figures"]["fingerprint"])] = records
    return found


def _stage_artifacts(name: str, stage: StageRecord, folder: Path, store: Store, results: Results) -> dict[str, Path]:
    result = store.find(stage.name, stage.digest)
    if result is None:
        return {}
    if MASK_FILE in result.files:
        return {"ticket.safetensors": _write(folder / "ticket.safetensors", store.read(result, MASK_FILE))}
    if ATTACKED_FILE in result.files:
        threat = str(result.record["figures"]["threat"]).replace("/", "-")
        path = results.attacked / f"{name}-{threat}.parquet"
        return {f"attacked/{threat}.parquet": _write(path, store.read(result, ATTACKED_FILE))}
    return {}


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _yaml(settings: Settings) -> bytes:
    stream = StringIO()
    YAML().dump(settings.model_dump(mode="json"), stream)
    return stream.getvalue().encode()
