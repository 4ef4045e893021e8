"""The tags of a run: who it is (so that no run is made twice), what was tried, how it ended. Pure Python."""

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tune_tickets.records import Outcome, Summary, TrialRecord
from tune_tickets.tracking.naming import TAG_LENGTH, flatten

EXPERIMENT = "tickets.experiment"
CONFIG = "tickets.config"
SEARCH = "tickets.search"
"""Tells two searches of one configuration apart that share a server."""
ROLE = "tickets.role"
KEY = "tickets.key"
PARENT = "mlflow.parentRunId"
METHODS = {"dense": "finetune", "random": "random"}
"""What controls are made by, whatever the method of the search."""
PACKAGES = ("tune_tickets", "torch", "transformers", "textattack", "ray", "optuna", "mlflow")


def description(settings: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, str]:
    """Method, model, task and versions; a trial's `params` win over the experiment's settings."""
    flat = {**flatten(settings), **params}
    paths = {"method": "method.kind", "model": "model.source", "task": "task.source"}
    tags = {name: str(flat[path]) for name, path in paths.items() if path in flat}
    return tags | {f"version.{package}": found for package, found in _installed().items()}


def outcome_tags(outcome: Outcome | None) -> dict[str, str]:
    """Flags and the threat models (name and fingerprint) behind the figures."""
    if outcome is None:
        return {}
    threats = {f"threat.{figures.threat}": figures.fingerprint for figures in outcome.attacks}
    return {"flags": ", ".join(outcome.flags), "notes": "; ".join(outcome.notes), **threats}


def trial_tags(trial: TrialRecord) -> dict[str, str]:
    """How a trial ended."""
    tags = {"status": trial.status, "trial": str(trial.number), "title": trial.title}
    tags["uses_ood_information"] = str(trial.uses_ood_information).lower()
    if trial.feasible is not None:
        tags["feasible"] = str(trial.feasible).lower()
    # The last lines of a traceback say what happened, so those are kept. An empty tag clears an earlier attempt's.
    tags["error"] = (trial.error or "")[-TAG_LENGTH:]
    return tags | outcome_tags(trial.outcome)


def summary_tags(summary: Summary) -> dict[str, str]:
    """The parent's tags at the end: status, winner, threat models with their resources, versions."""
    tags = {
        "status": summary.status,
        "selected": summary.selected.trial or "",
        "front": ", ".join(summary.front),
        "uses_ood_information": str(summary.uses_ood_information).lower(),
        "mlflow.note.content": summary.selected.reason,
    }
    for threat in summary.threat_models:
        tags[f"threat.{threat.name}"] = threat.fingerprint
        tags[f"threat.{threat.name}.resources"] = json.dumps(threat.resources, sort_keys=True)
    return tags | {f"version.{name}": found for name, found in summary.versions.items()}


def _installed() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a driver may run from a plain source tree
            continue
    return found
