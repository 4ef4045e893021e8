"""The points that a search tries: warm starts, grids and samples of the domains."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.domain import Choice, Domain, Int, LogUniform, Scalar, Uniform
from tune_tickets.config.loading import active, fill
from tune_tickets.config.section import parse_fraction
from tune_tickets.config.source import KeyPath, split
from tune_tickets.errors import ConfigError

Point = dict[str, Scalar]
MOST_POINTS = 100_000
_MOST_OPTIONS = 256


def grid(experiment: Experiment) -> list[Point]:
    """Return every combination of values that a trial can draw, without domains whose conditions are false."""
    values = {name: _values(name, domain, experiment) for name, domain in experiment.domains.items()}
    points: list[Point] = []
    for point in _walk(experiment, values, list(values), {}):
        if len(points) == MOST_POINTS:
            message = f"the grid has more than {MOST_POINTS} points: search fewer values, or use another sampler"
            raise experiment.source.error(("search", "sampler"), message)
        points.append(point)
    return points


def trials_wanted(experiment: Experiment) -> int:
    """Return the number of trials: `search.trials`, but no more than a grid has points."""
    search = experiment.settings.search
    return min(search.trials, len(grid(experiment))) if search.sampler == "grid" else search.trials


def trial_options(experiment: Experiment, fixed: Point | None = None) -> list[Point]:
    """Return points that represent all trials: all combinations of choices, with the smallest and the largest numbers.

    Args:
        experiment: The experiment.
        fixed: Values that are known, such as those of a warm start.

    Returns:
        At most 512 points that the experiment accepts.
    """
    found: list[Point] = []
    for extreme in (min, max):
        values = {name: _extremes(domain, extreme) for name, domain in experiment.domains.items()}
        values |= {name: [value] for name, value in (fixed or {}).items() if name in values}
        for point in islice(_walk(experiment, values, list(values), {}), _MOST_OPTIONS):
            if point not in found and _accepted(experiment, point):
                found.append(point)
    return found


def _extremes(domain: Domain, extreme: Callable[[Iterable[float]], float]) -> list[Scalar]:
    corners = domain.corners()
    numbers = [parse_fraction(value) for value in corners]
    if all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        return [corners[numbers.index(extreme(numbers))]]
    return corners


def _accepted(experiment: Experiment, point: Point) -> bool:
    try:
        experiment.at(point)
    except ConfigError:
        return False
    return True


def _walk(experiment: Experiment, values: dict[str, list[Scalar]], names: list[str], point: Point) -> Iterator[Point]:
    if not names:
        yield point
    elif active(experiment.domains[names[0]], point, experiment.document):
        for value in values[names[0]]:
            yield from _walk(experiment, values, names[1:], {**point, names[0]: value})
    else:
        yield from _walk(experiment, values, names[1:], point)


def _values(name: str, domain: Domain, experiment: Experiment) -> list[Scalar]:
    match domain:
        case Choice(choice=choices):
            return list(choices)
        case Int(int=(first, last), step=stride):
            return list(range(first, last + 1, stride))
        case Uniform(uniform=(low, high), step=float(step)):
            ticks = int((high - low) / step + 1e-9)
            # Rounded like drawn values: 0.30000000000000004 would share no stage with 0.3.
            return [float(f"{low + tick * step:.12g}") for tick in range(ticks + 1)]
        case _:
            raise experiment.source.error(
                split(name),
                "a continuous domain has no grid: give it a step (uniform), list its values as {choice: [...]}, "
                "or use another search.sampler",
            )


def warm_starts(experiment: Experiment) -> list[dict[str, Scalar]]:
    """Return the points of `search.warm_starts`; raises ConfigError if one is not in the search space."""
    points = []
    for index, raw in enumerate(experiment.settings.search.warm_starts):
        place: KeyPath = ("search", "warm_starts", index)
        # A domain that an override has fixed is not searched; the rest of the point stays.
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
                    (*place, name), f"would be ignored: the condition {domain.when} is false at this point"
                )
        points.append(point)
    return points


def warm_start_note(experiment: Experiment) -> str | None:
    """Return what a user should know about warm starts beyond `search.trials`, or None."""
    given, trials = len(experiment.settings.search.warm_starts), experiment.settings.search.trials
    if given <= trials:
        return None
    return (
        f"Only {trials} of {given} warm starts are tried, because search.trials={trials}. Resume with more trials to "
        "try the others."
    )


def _overridden(name: str, experiment: Experiment) -> bool:
    """Return whether an override has set this key or a section above it."""
    path = split(name)
    return any(path[:length] in experiment.source.overrides for length in range(1, len(path) + 1))


def _check_names(point: dict[str, Scalar], place: KeyPath, experiment: Experiment) -> None:
    for name in point:
        if name not in experiment.domains:
            known = ", ".join(experiment.domains) or "none"
            raise experiment.source.error((*place, name), f"is not a search domain; this file has: {known}")


def reference(experiment: Experiment) -> Settings:
    """Return the settings of the controls: the first warm start, with the first value of every other domain.

    Controls must be one fixed model for all trials, even if the retraining itself is searched.
    """
    points = warm_starts(experiment)
    return experiment.at(fill(experiment.document, experiment.domains, points[0] if points else {}))


class Suggester(Protocol):
    """The methods of an Optuna trial that sampling uses."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int: ...

    def suggest_categorical(self, name: str, choices: tuple[Scalar, ...]) -> Scalar: ...


def sample(experiment: Experiment, trial: Suggester) -> dict[str, Scalar]:
    """Draw a value for every domain whose conditions are true."""
    params: dict[str, Scalar] = {}
    for name, domain in experiment.domains.items():
        if active(domain, params, experiment.document):
            params[name] = _draw(name, domain, trial)
    return params


def _draw(name: str, domain: Domain, trial: Suggester) -> Scalar:
    match domain:
        case Uniform(uniform=(low, high), step=step):
            # Without the rounding a grid has points such as 0.30000000000000004, which share no stage with 0.3.
            return float(f"{trial.suggest_float(name, low, high, step=step):.12g}")
        case LogUniform(log_uniform=(low, high)):
            return trial.suggest_float(name, low, high, log=True)
        case Int(int=(first, last), step=stride):
            return trial.suggest_int(name, first, last, step=stride)
        case Choice(choice=choices):
            return trial.suggest_categorical(name, choices)
