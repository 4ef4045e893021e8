"""What a planned search is likely to spend, in the units of `search.budget`, from earlier stages on the store."""

import os
from collections.abc import Sequence

from tune_tickets.config import Settings
from tune_tickets.tuning.plan import PlannedStage

_HOUR = 3600.0


def estimate(stages: Sequence[PlannedStage], settings: Settings) -> dict[str, float] | None:
    """Hours and money of what is left at most; None if a kind of stage was never measured.

    Rough: the measured pace of earlier stages of a kind, for all that is planned of it. On a cluster every stage is
    taken to have a node of its own, which is the dearest way; here, no more run at once than this machine has CPUs for.
    """
    costs = [stage.cost for stage in stages]
    seconds = sum(cost for cost in costs if cost is not None)
    if None in costs:
        return None
    wall_clock = seconds / _at_once(settings) / _HOUR
    spent = {
        "cpu_hours": seconds * settings.resources.cpus / _HOUR,
        "gpu_hours": seconds * settings.resources.gpus / _HOUR,
        "wall_clock_hours": wall_clock,
    }
    price = settings.search.budget.price_per_node_hour
    node_hours = seconds / _HOUR if settings.resources.address else wall_clock
    return spent if price is None else {**spent, "money": node_hours * price}


def _at_once(settings: Settings) -> int:
    """How many stages run side by side at least, once there are enough of them."""
    concurrency = settings.search.concurrency
    if settings.resources.address:
        return concurrency
    return max(1, min(concurrency, int((os.cpu_count() or 1) / settings.resources.cpus)))


def estimate_lines(stages: Sequence[PlannedStage], settings: Settings) -> list[str]:
    """The same in words, and what the budget says to it."""
    limits = settings.search.budget.limits()
    found = estimate(stages, settings)
    if found is None:
        unknown = ", ".join(stage.name for stage in stages if stage.cost is None)
        stops = "; the search stops at its budget" if limits else ""
        return [f"Cost unknown: {unknown} never ran on this store. It is known after the first trial{stops}."]
    shown = ", ".join(f"{value:.3g} {name.replace('_', ' ')}" for name, value in found.items())
    where = "a node per stage" if settings.resources.address else "on this machine"
    lines = [f"Rough estimate from the measured steps of earlier stages: at most {shown} ({where})."]
    for name, limit in limits.items():
        if found[name] > limit:
            share = 100.0 * limit / found[name]
            lines.append(f"The budget of {limit:g} {name.replace('_', ' ')} may end it after {share:.0f}% of that.")
    return lines
