"""The verbs that look and do not touch: `validate`, `plan` and `schema`."""

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tune_tickets.config import load_experiment
from tune_tickets.config.experiment import uses_ood_information
from tune_tickets.data.ood import TwinData
from tune_tickets.results.folder import place_results
from tune_tickets.search.space import warm_start_note, warm_starts


def validate(path: Path, overrides: list[str]) -> None:
    """Check the file, then that its rows and backbone are there and fit."""
    experiment = load_experiment(path, overrides)
    warm_starts(experiment)
    from tune_tickets.search.preflight import look

    seen = look(experiment)
    found = [f"{len(experiment.domains)} search domains"]
    if seen.data is not None:
        rows = (len(seen.data.train), len(seen.data.select), len(seen.data.report))
        found.append("{} train, {} select and {} report rows".format(*rows))
        found += map(_twin, seen.data.ood)
    found += [f"{name} with {len(data.train)} and {len(data.select)} more" for name, data in seen.transfers.items()]
    if seen.anatomy is not None:
        found.append("{layers} layers of {heads} heads and {neurons} neurons".format(**vars(seen.anatomy)))
    print(f"{path} is valid{' as far as can be told from here' if seen.unseen else ''}: {', '.join(found)}")
    for reason in seen.unseen:
        print(f"Not looked at: {reason}")


def _twin(twin: TwinData) -> str:
    return f"OOD twin {twin.name} with {len(twin.select)} select and {len(twin.report)} report rows"


def plan(path: Path, overrides: list[str], output: Path | None) -> None:
    """Print stages x trials, what is cached and the estimated cost."""
    experiment = load_experiment(path, overrides)
    warm_starts(experiment)
    from tune_tickets.engine.store import Store
    from tune_tickets.search.plan import estimate_lines
    from tune_tickets.search.plan import plan as make_plan
    from tune_tickets.search.preflight import look, world_of
    from tune_tickets.search.samplers import sampler_note

    seen = look(experiment)
    store = Store(place_results(experiment, output).store_url).answering()
    train_rows = experiment.settings.task.rows.train if seen.data is None else len(seen.data.train)
    stages = make_plan(experiment, world_of(experiment, seen), store, train_rows)
    table = Table("stage", "asked", "cached", "to compute", "work each", "seconds each", "seconds in all")
    for stage in stages:
        each = "not measured yet" if stage.seconds is None else f"{stage.seconds:.1f}"
        cost = "?" if stage.cost is None else f"{stage.cost:.0f}"
        cached = "?" if stage.cached is None else str(stage.cached)
        table.add_row(stage.name, str(stage.asked), cached, f"<= {stage.left}", stage.work, each, cost)
    console = Console()
    console.print(table)
    for line in estimate_lines(stages, experiment.settings):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for note in filter(None, (sampler_note(experiment), warm_start_note(experiment))):
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    if seen.unseen:
        console.print("Stored results are not counted, for that needs what could not be looked at from here:")
    for reason in seen.unseen:
        console.print(f"Not looked at: {reason}", markup=False, highlight=False)
    searched = experiment.domains.get("method.ood_rows")
    if uses_ood_information(experiment.settings) or (searched is not None and searched.contains(True)):
        console.print("OOD rows enter this search: it is marked uses_ood_information.")
    console.print("Upper bounds: trials share what they can, and ASHA ends some early.")


def schema() -> None:
    """Print the JSON schema of experiment files."""
    from tune_tickets.config.schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
