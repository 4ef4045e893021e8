"""Fair timing: candidates run in turn (A B A B), so that a busy machine slows all of them equally."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all numbers to this file")]
Action = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one action over all rounds. The minimum is the least disturbed by other processes."""

    minimum: float
    median: float
    cpu_minimum: float
    """CPU time of all threads, which is useful if other processes use the cores."""

    def as_dict(self) -> dict[str, float]:
        """Return the numbers for a JSON file."""
        return {name: round(value, 4) for name, value in vars(self).items()}


def interleaved(actions: Mapping[str, Action], rounds: int, warmup: int) -> dict[str, Timing]:
    """Time every action once per round, after `warmup` rounds that do not count."""
    wall: dict[str, list[float]] = {name: [] for name in actions}
    cpu: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(warmup + rounds):
        for name, action in actions.items():
            began, began_cpu = time.perf_counter(), time.process_time()
            action()
            if number >= warmup:
                cpu[name].append(1000 * (time.process_time() - began_cpu))
                wall[name].append(1000 * (time.perf_counter() - began))
    return {name: Timing(min(wall[name]), median(wall[name]), min(cpu[name])) for name in actions}


def compared(timings: Mapping[str, Timing], one: str, other: str) -> dict[str, Any]:
    """Return both timings, and the time of `one` divided by the time of `other`."""
    first, second = timings[one], timings[other]
    return {
        one: first.as_dict(),
        other: second.as_dict(),
        "ratio": round(first.minimum / second.minimum, 4),
        "median_ratio": round(first.median / second.median, 4),
        "cpu_ratio": round(first.cpu_minimum / second.cpu_minimum, 4),
    }


def write_json(report: Mapping[str, Any], path: Path | None) -> None:
    """Write the numbers of a benchmark to a file, if one is given."""
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
