"""Which experiments use what is in a store, and whose weights must stay: told by their results folders."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tune_tickets.confirmation import Confirmation
from tune_tickets.errors import TicketsError
from tune_tickets.objective import front
from tune_tickets.records import ControlRecord, EpochsRecord, Outcome, StageRecord, TrialRecord
from tune_tickets.reporting.summary import read_summary
from tune_tickets.tuning.results import Results


@dataclass(frozen=True)
class StoreUser:
    """An experiment: the digests of all stages it has asked for, and of those behind what it shows for it."""

    folder: Path
    uses: frozenset[str]
    shows: frozenset[str]
    """Stages of the front, the selected ticket, and the controls that this one is compared with."""
    last: float
    """When it was last written to, in seconds since 1970."""


def store_users(place: Path) -> list[StoreUser]:
    """The experiments in a folder, below it, or beside it if it is one itself; the latest first."""
    place = place.expanduser().resolve()
    folders = [place, *_below(place)]
    if (place / "config.yaml").is_file():
        folders += [folder for folder in _below(place.parent) if folder != place]
    found = [_user(Results(folder, "")) for folder in folders if (folder / "config.yaml").is_file()]
    return sorted(found, key=lambda user: user.last, reverse=True)


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _user(results: Results) -> StoreUser:
    trials = {trial.id: trial for trial in results.read_trials()}
    controls: tuple[ControlRecord, ...] = ()
    epochs: tuple[EpochsRecord, ...] = ()
    selected = None
    with suppress(TicketsError):  # a search under way or cut off has no summary
        summary = read_summary(results.folder)
        trials = {trial.id: trial for trial in summary.trials} | trials
        controls, epochs, selected = summary.controls, summary.epochs, summary.selected.trial
    compared = [control for control in controls if control.like is None]
    shown: list[TrialRecord | ControlRecord] = [*front(list(trials.values())), *compared]
    if selected in trials:
        shown.append(trials[selected])
    files = [path for path in results.folder.iterdir() if path.is_file()]
    return StoreUser(
        results.folder,
        uses=_digests([*trials.values(), *controls]) | _by_epoch(epochs) | _confirmed(results),
        shows=_digests(shown),
        last=max(path.stat().st_mtime for path in files),
    )


def _digests(records: Iterable[TrialRecord | ControlRecord]) -> frozenset[str]:
    return frozenset(stage.digest for record in records for stage in (*record.stages, *_of_transfers(record.outcome)))


def _of_transfers(outcome: Outcome | None) -> Iterator[StageRecord]:
    for transfer in outcome.transfers if outcome is not None else ():
        yield from transfer.stages


def _by_epoch(records: Iterable[EpochsRecord]) -> frozenset[str]:
    """What was trained once more to be attacked between its epochs; only its figures are shown."""
    return frozenset(stage.digest for record in records for stage in record.stages)


def _confirmed(results: Results) -> frozenset[str]:
    """What `confirm` has trained; nothing of it is read again."""
    try:
        found = Confirmation.model_validate_json(results.confirmation.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(run.retrain_digest for model in found.models for run in model.runs if run.retrain_digest)
