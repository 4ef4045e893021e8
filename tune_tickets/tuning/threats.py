"""The threat models of a search for its summary, each with a sample of what it changed for a person to judge."""

from collections.abc import Sequence
from pathlib import Path

from tune_tickets.attacks.changes import sample_substitutions
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.records import ControlRecord, StageRecord, ThreatRecord, TrialRecord
from tune_tickets.reporting.marking import substitution_page
from tune_tickets.trial.store import Store
from tune_tickets.tuning.artifacts import attacked_records


def threat_records(
    threats: Sequence[ThreatModel],
    seed: int,
    best: Sequence[TrialRecord],
    controls: Sequence[ControlRecord],
    store: Store,
) -> tuple[ThreatRecord, ...]:
    """One record per threat model; the substitutions are those made against the winner, else the first control."""
    model, stages = _judged(best, controls)
    attacked = attacked_records(stages, store)
    return tuple(
        ThreatRecord(
            name=threat.name,
            fingerprint=threat.fingerprint,
            resources=dict(threat.resources),
            substitutions=sample_substitutions(attacked.get(threat.name, []), seed),
            substitutions_of=model if threat.name in attacked else None,
        )
        for threat in threats
    )


def write_substitutions(threats: Sequence[ThreatRecord], path: Path) -> None:
    """The samples as a page to read; no page if nothing was attacked."""
    pages = [
        substitution_page(threat.name, threat.substitutions_of, threat.substitutions)
        for threat in threats
        if threat.substitutions_of is not None
    ]
    if pages:
        path.write_text("\n".join(pages), encoding="utf-8")


def _judged(
    best: Sequence[TrialRecord], controls: Sequence[ControlRecord]
) -> tuple[str | None, tuple[StageRecord, ...]]:
    if best:
        return best[0].id, best[0].stages
    return (controls[0].name, controls[0].stages) if controls else (None, ())
