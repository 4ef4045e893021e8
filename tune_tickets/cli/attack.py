"""The verb `attack`: threat models against a saved model, with metrics, attacked texts and a sample to judge."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tune_tickets.cli.options import Offline, SavedModel
from tune_tickets.errors import TicketsError
from tune_tickets.offline import go_offline

if TYPE_CHECKING:
    from tune_tickets.api.attack import Duel
    from tune_tickets.attacks.records import AttackRecord, AttackReport, Measured, Piece
    from tune_tickets.cli.live import Meter
    from tune_tickets.data.sample import Sample


def attack(
    ticket: SavedModel,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK.KEY=VALUE", help="About the data, e.g. task.label=stars task.subset=sst2"),
    ] = None,
    threat: Annotated[
        list[str] | None, typer.Option(help="Threat model by name, e.g. textfooler/minilm; can be repeated")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="A second model to attack on the same rows; adds an exact paired test")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A file, 'bundled/imdb', a hub id, or an experiment YAML whose select rows are attacked; default: the "
            "experiment in the ticket's results folder, else bundled/rotten-tomatoes"
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The text column to attack; of a pair, the other one is locked")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="How many rows to attack; default: as in the experiment, else 100")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of sample and attacks; default: as in the experiment, else 0"),
    ] = None,
    query_budget: Annotated[int | None, typer.Option(min=1, help="Queries per row before an attack gives up")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many attacked texts to print per threat model")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all metrics to this file")] = None,
    out: Annotated[Path | None, typer.Option(help="Write every attacked text to this parquet file")] = None,
    offline: Offline = False,
) -> None:
    """Attack a saved ticket or any text classifier of transformers. Ctrl-C keeps the attacks that are finished."""
    if offline:
        go_offline()
    from tune_tickets.api.attack import Question, prepare, report_of
    from tune_tickets.attacks.records import write_groups
    from tune_tickets.reports.attacked import say

    console = Console()
    duel = prepare(Question(ticket, overrides or [], threat or [], against, data, column, rows, seed, query_budget))
    for path in (json_file, out):
        if path is not None:
            _check_writable(path)
    sample = duel.targets[0][1]
    say(console, f"{len(sample.rows)} {sample.origin}, column {sample.attacked!r} attacked, seed {duel.seed}")
    finished: list[Measured] = []
    unfinished = _attack_all(duel, finished)
    report = report_of(duel, finished, unfinished)
    _print_report(report, finished, show, console)
    if json_file is not None:
        json_file.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if out is not None and finished:
        write_groups([(_group(one), one.records) for one in finished], out)
    if unfinished:
        sys.exit(130)


def _check_writable(path: Path) -> None:
    """Create the folder of an output file, and raise before the attack, which may take hours, if it is not writable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise TicketsError(f"{path} cannot be written: name a file in a folder that you may write to")


def _attack_all(duel: Duel, finished: list[Measured]) -> tuple[str, ...]:
    """Fill `finished`; return the attacks that Ctrl-C stopped, with the number of rows done."""
    from tune_tickets.api.attack import measured, title
    from tune_tickets.cli.live import Meter

    meters: list[Meter] = []

    def begin(title: str, rows: int) -> Meter:
        meters.append(Meter(title, rows))
        return meters[-1]

    try:
        for one in measured(duel, begin):
            finished.append(one)  # one by one, because Ctrl-C may come between two
    except KeyboardInterrupt:
        left = duel.order[len(finished) :]
        reached = [meters[-1].done if meters else 0] + [0] * len(left)
        return tuple(
            f"{title(threat, model)}: {done} of {len(sample.rows)} rows"
            for (threat, model, sample), done in zip(left, reached, strict=False)
        )
    return ()


def _group(attacked: Measured) -> dict[str, str]:
    found = attacked.measurement
    return {"model": found.model, "threat": found.figures.threat, "fingerprint": found.figures.fingerprint}


def _print_report(report: AttackReport, finished: list[Measured], show: int, console: Console) -> None:
    """Print attacked texts, then the sample to judge, and the metrics last, where a reader looks first."""
    from tune_tickets.reports.attacked import print_comparisons, print_figures, print_substitutions, print_texts, say

    for attacked in finished:
        shown = [_shown(record, attacked.sample) for record in _worth_showing(attacked, show)]
        if shown:
            print_texts(shown, f"{attacked.measurement.figures.threat} on {attacked.measurement.model}", console)
    for attacked in finished:
        print_substitutions(attacked.measurement, console)
    if report.measurements:
        print_figures(report.measurements, console)
    if report.comparisons:
        print_comparisons(report.comparisons, console)
    if report.unfinished:
        console.print()
        say(console, "Interrupted. These attacks are incomplete and have no metrics:", style="bold red")
        for line in report.unfinished:
            say(console, f"  {line}")


def _worth_showing(attacked: Measured, count: int) -> list[AttackRecord]:
    """Successful attacks first, then failed ones, both in the order of the rows."""
    tried = [record for record in attacked.records if record.status != "skipped"]
    return sorted(tried, key=lambda record: record.status != "successful")[:count]


def _shown(record: AttackRecord, sample: Sample) -> tuple[str, list[tuple[str, list[Piece]]]]:
    from tune_tickets.attacks.records import pieces

    labels = sample.labels
    answer = f"{labels[record.prediction]} -> {labels[record.perturbed_prediction]}"
    similarity = "" if record.similarity is None else f", similarity {record.similarity:.2f}"
    heading = (
        f"row {record.index}: {record.status}, {answer}, {record.queries} queries, "
        f"{record.words_changed:.1f}% of the words changed{similarity}"
    )
    sides = zip(sample.columns, record.texts, record.perturbed_texts, strict=True)
    return heading, [(column, pieces(before, after)) for column, before, after in sides]
