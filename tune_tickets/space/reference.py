"""The reference point of a search: the settings that the controls are trained with."""

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.searchable import fill
from tune_tickets.space.warm_starts import warm_starts


def reference(experiment: Experiment) -> Settings:
    """The first warm-start point, completed by the first value of every other domain.

    Controls must be one fixed model for all trials, also where the retraining itself is searched.
    """
    points = warm_starts(experiment)
    return experiment.at(fill(experiment.document, experiment.domains, points[0] if points else {}))
