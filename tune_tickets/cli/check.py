"""The verbs that look and do not touch: `validate`, `plan` and `schema`."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tune_tickets.config import load_experiment
from tune_tickets.space import warm_starts
from tune_tickets.tuning.results import place_results


def validate(path: Path, overrides: list[str]) -> None:
    """Check the file, then that its rows and backbone are there and fit."""
    experiment = load_experiment(path, overrides)
    warm_starts(experiment)
    from tune_tickets.tuning.preflight import check

    data, anatomy = check(experiment)
    print(
        f"{path} is valid: {len(experiment.domains)} search domains, "
        f"{len(data.train)} train, {len(data.select)} select and {len(data.report)} report rows, "
        f"{anatomy.layers} layers of {anatomy.heads} heads and {anatomy.neurons} neurons"
    )


def plan(path: Path, overrides: list[str], output: Path | None) -> None:
    """Print stages x trials, what is cached and the estimated cost."""
    experiment = load_experiment(path, overrides)
    warm_starts(experiment)
    from tune_tickets.trial.store import Store
    from tune_tickets.tuning.plan import plan as make_plan
    from tune_tickets.tuning.preflight import check, world_of

    data, anatomy = check(experiment)
    store = Store(place_results(experiment, output).store_url)
    stages = make_plan(experiment, world_of(experiment, data, anatomy), store, len(data.train))
    table = Table("stage", "asked", "cached", "to compute", "work each", "seconds each", "seconds in all")
    for stage in stages:
        each = "not measured yet" if stage.seconds is None else f"{stage.seconds:.1f}"
        cost = "?" if stage.cost is None else f"{stage.cost:.0f}"
        table.add_row(stage.name, str(stage.asked), str(stage.cached), f"<= {stage.left}", stage.work, each, cost)
    console = Console()
    console.print(table)
    search = experiment.settings.search
    costs = [stage.cost for stage in stages]
    if None in costs:
        console.print("Some stages were never run on this store: their time is known after the first trial.")
    else:
        total = sum(cost for cost in costs if cost is not None)
        console.print(f"At most {total:.0f} s of computing, about {total / search.concurrency:.0f} s", end=" ")
        console.print(f"with {search.concurrency} stages at once.")
    console.print("Upper bounds: trials share what they can, and ASHA ends some early.")


def schema() -> None:
    """Print the JSON schema of experiment files."""
    from tune_tickets.config.schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
