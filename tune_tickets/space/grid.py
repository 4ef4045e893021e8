"""The grid of a search: every point of the condition tree, in the order of the domains."""

from collections.abc import Iterator

from tune_tickets.config import Experiment
from tune_tickets.config.document import split
from tune_tickets.config.domain import Choice, Domain, Int, Scalar, Uniform
from tune_tickets.config.searchable import active

Point = dict[str, Scalar]
MOST_POINTS = 100_000


def grid(experiment: Experiment) -> list[Point]:
    """Every combination of values that a trial can draw; domains whose conditions do not hold are absent from it."""
    values = {name: _values(name, domain, experiment) for name, domain in experiment.domains.items()}
    points: list[Point] = []
    for point in _walk(experiment, values, list(values), {}):
        if len(points) == MOST_POINTS:
            message = f"the grid has more than {MOST_POINTS} points: search fewer values, or take another sampler"
            raise experiment.source.error(("search", "sampler"), message)
        points.append(point)
    return points


def trials_wanted(experiment: Experiment) -> int:
    """How many trials a search has: `search.trials`, and no more than its grid has points."""
    search = experiment.settings.search
    return min(search.trials, len(grid(experiment))) if search.sampler == "grid" else search.trials


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
            # Rounded as drawn values are: 0.30000000000000004 would share no stage with 0.3.
            return [float(f"{low + tick * step:.12g}") for tick in range(ticks + 1)]
        case _:
            raise experiment.source.error(
                split(name),
                "a continuous domain has no grid: give it a step (uniform), list its values as {choice: [...]}, "
                "or take another search.sampler",
            )
