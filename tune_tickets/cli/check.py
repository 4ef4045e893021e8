"""The verbs that only look: `validate`, `plan` and `schema`. They run and write nothing."""

import json

from rich.console import Console
from rich.table import Table

from tune_tickets.cli.options import Output, Overrides, Yaml


def validate(experiment: Yaml, overrides: Overrides = None) -> None:
    """Check an experiment file, its overrides, its data and its model. Nothing is run."""
    from tune_tickets.config import load_experiment
    from tune_tickets.search.space import warm_starts

    loaded = load_experiment(experiment, overrides or [])
    warm_starts(loaded)
    from tune_tickets.search.preflight import look

    seen = look(loaded)
    found = [f"{len(loaded.domains)} search domains"]
    if seen.data is not None:
        rows = (len(seen.data.train), len(seen.data.select), len(seen.data.report))
        found.append("{} train, {} select and {} report rows".format(*rows))
        found += [
            f"OOD twin {twin.name} with {len(twin.select)} select and {len(twin.report)} report rows"
            for twin in seen.data.ood
        ]
    found += [f"{name} with {len(data.train)} and {len(data.select)} more" for name, data in seen.transfers.items()]
    if seen.anatomy is not None:
        found.append("{layers} layers of {heads} heads and {neurons} neurons".format(**vars(seen.anatomy)))
    partly = " as far as can be checked from here" if seen.unseen else ""
    print(f"{experiment} is valid{partly}: {', '.join(found)}")
    for reason in seen.unseen:
        print(f"Not checked: {reason}")


def plan(experiment: Yaml, overrides: Overrides = None, output: Output = None) -> None:
    """Show stages x trials, what is cached and the estimated cost. Nothing is run."""
    from tune_tickets.config import load_experiment
    from tune_tickets.config.experiment import uses_ood_information
    from tune_tickets.search.space import warm_start_note, warm_starts

    loaded = load_experiment(experiment, overrides or [])
    warm_starts(loaded)
    from tune_tickets.engine.store import Store
    from tune_tickets.results.folder import place_results
    from tune_tickets.search.plan import estimate_lines
    from tune_tickets.search.plan import plan as make_plan
    from tune_tickets.search.preflight import look, world_of
    from tune_tickets.search.samplers import sampler_note

    seen = look(loaded)
    store = Store(place_results(loaded, output).store_url).answering()
    train_rows = loaded.settings.task.rows.train if seen.data is None else len(seen.data.train)
    stages = make_plan(loaded, world_of(loaded, seen), store, train_rows)
    table = Table("stage", "asked", "cached", "to compute", "work each", "seconds each", "seconds in all")
    for stage in stages:
        each = "not measured yet" if stage.seconds is None else f"{stage.seconds:.1f}"
        cost = "?" if stage.cost is None else f"{stage.cost:.0f}"
        cached = "?" if stage.cached is None else str(stage.cached)
        table.add_row(stage.name, str(stage.asked), cached, f"<= {stage.left}", stage.work, each, cost)
    console = Console()
    console.print(table)
    for line in estimate_lines(stages, loaded.settings):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for note in filter(None, (sampler_note(loaded), warm_start_note(loaded))):
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    if seen.unseen:
        console.print("Stored results are not counted, because that needs what could not be checked from here:")
    for reason in seen.unseen:
        console.print(f"Not checked: {reason}", markup=False, highlight=False)
    searched = loaded.domains.get("method.ood_rows")
    if uses_ood_information(loaded.settings) or (searched is not None and searched.contains(True)):
        console.print("This search uses OOD rows: it is marked uses_ood_information.")
    console.print("Upper bounds: trials share what they can, and ASHA stops some early.")


def schema() -> None:
    """Print the JSON schema of experiment files, for completion in editors."""
    from tune_tickets.config.schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
