"""What a search maximised and what a ticket had to meet to win, in sentences."""

from collections.abc import Iterator

from tune_tickets.config.objective import Objective


def objective_sentences(objective: Objective) -> Iterator[str]:
    """The value first, then the conditions."""
    yield _value(objective)
    if objective.floor_points is not None:
        yield f"A ticket may lose at most {objective.floor_points:g} points of clean accuracy to the dense control."
    if objective.floor_clean is not None:
        yield f"A ticket has to reach {objective.floor_clean:g}% clean accuracy."
    yield from (f"A ticket has to meet {constraint.text}." for constraint in objective.constraints)
    yield f"A model that gives one label to {100 * objective.near_constant:g}% of rows or more may not win."


def _value(objective: Objective) -> str:
    if objective.kind == "weighted":
        terms = " + ".join(f"{weight:g} {name}" for name, weight in objective.weighting.items())
        return f"Maximised: the weighted mean {terms}."
    if objective.kind == "harmonic":
        return f"Maximised: the harmonic mean of {', '.join(objective.metrics)}."
    if objective.kind == "constrained":
        return f"Maximised: {objective.maximise}, under the conditions below."
    return f"Improved together, as a Pareto front: {', '.join(objective.metrics)}."
