"""Warm-start points: settings tried before the sampler's own, checked so that none is silently dropped or bent."""

from tune_tickets.config import Experiment
from tune_tickets.config.document import split
from tune_tickets.config.domain import Scalar
from tune_tickets.config.searchable import active
from tune_tickets.config.section import parse_fraction
from tune_tickets.config.source import KeyPath


def warm_starts(experiment: Experiment) -> list[dict[str, Scalar]]:
    """The points of `search.warm_starts`; each key must be a search domain and each value lie inside it."""
    points = []
    for index, raw in enumerate(experiment.settings.search.warm_starts):
        place: KeyPath = ("search", "warm_starts", index)
        # A domain that an override has fixed is no longer searched; the rest of the point still stands.
        fixed = [name for name in raw if name not in experiment.domains and _overridden(name, experiment)]
        point = {name: parse_fraction(value) for name, value in raw.items() if name not in fixed}
        _check_names(point, place, experiment)
        for name, value in point.items():
            domain = experiment.domains[name]
            if not domain.contains(value):
                allowed = domain.model_dump(mode="json", exclude={"when"}, exclude_defaults=True)
                raise experiment.source.error((*place, name), f"{value!r} lies outside the search domain {allowed}")
            if not active(domain, point, experiment.document):
                raise experiment.source.error(
                    (*place, name), f"would be ignored: the condition {domain.when} does not hold at this point"
                )
        points.append(point)
    return points


def warm_start_note(experiment: Experiment) -> str | None:
    """What a user should know of warm starts for which a search has no trials; None if nothing."""
    given, trials = len(experiment.settings.search.warm_starts), experiment.settings.search.trials
    if given <= trials:
        return None
    return (
        f"Of {given} warm starts search.trials={trials} has room for {trials}: the others wait until the "
        "search is given more trials."
    )


def _overridden(name: str, experiment: Experiment) -> bool:
    """Whether an override has put a value there, or in the place of a section above."""
    path = split(name)
    return any(path[:length] in experiment.source.overrides for length in range(1, len(path) + 1))


def _check_names(point: dict[str, Scalar], place: KeyPath, experiment: Experiment) -> None:
    for name in point:
        if name not in experiment.domains:
            known = ", ".join(experiment.domains) or "none"
            raise experiment.source.error((*place, name), f"is not a search domain; those of this file are: {known}")
