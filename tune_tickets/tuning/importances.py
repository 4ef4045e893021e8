"""How much the objective depends on each searched setting, by Optuna's fANOVA."""

import warnings
from pathlib import Path

import optuna
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from tune_tickets.config import Experiment
from tune_tickets.errors import TicketsError
from tune_tickets.objective import names
from tune_tickets.tracking.location import sqlite_uri

FEWEST = 4
"""Completed trials below which the shares say nothing."""


def importances(experiment: Experiment, digest: str, database: Path) -> dict[str, dict[str, float]]:
    """By value of the objective and setting, 0 to 1; of settings that only some trials have, none.

    Raises with the reason if there is nothing to compute them from.
    """
    if not database.is_file():
        raise TicketsError(f"there is no {database.name}")
    storage = optuna.storages.RDBStorage(sqlite_uri(database))
    try:
        study = optuna.load_study(study_name=f"{experiment.settings.name}-{digest[:12]}", storage=storage)
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(done) < FEWEST:
            raise TicketsError(f"only {len(done)} trials are complete, fewer than {FEWEST}")
        shared = set.intersection(*(set(trial.params) for trial in done))
        varied = sorted(name for name in shared if len({repr(trial.params[name]) for trial in done}) > 1)
        if not varied:
            raise TicketsError("no setting that all trials have differs between them")
        found = {}
        for index, name in enumerate(names(experiment.settings.objective)):
            if len({trial.values[index] for trial in done}) > 1:
                found[name.removesuffix("_value")] = _shares(study, varied, index)
        if not found:
            raise TicketsError("all completed trials have the same objective")
        return found
    finally:
        storage.engine.dispose()


def _shares(study: optuna.Study, settings: list[str], index: int) -> dict[str, float]:
    def value(trial: FrozenTrial) -> float:
        return float(trial.values[index])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # experimental features, which we pin
        return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), params=settings, target=value)
