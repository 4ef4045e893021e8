"""The verb `attack`: threat models against a saved model, with figures, attacked texts and a sample to judge."""

import os
import sys
from pathlib import Path

from rich.console import Console

from tune_tickets.api.attack import Duel, Question, measured, prepare, report_of, title
from tune_tickets.attacks.records import Measured, write_groups
from tune_tickets.cli.attacked import print_report
from tune_tickets.cli.meter import Meter
from tune_tickets.errors import TicketsError
from tune_tickets.reports.attacked import say


def attack(question: Question, show: int, json_file: Path | None, out: Path | None) -> None:
    """Attack, print, and write what was asked for; Ctrl-C keeps the attacks that are finished."""
    console = Console()
    duel = prepare(question)
    for path in (json_file, out):
        if path is not None:
            make_room(path)
    sample = duel.targets[0][1]
    say(console, f"{len(sample.rows)} {sample.origin}, column {sample.attacked!r} attacked, seed {duel.seed}")
    finished: list[Measured] = []
    unfinished = _attack_all(duel, finished)
    report = report_of(duel, finished, unfinished)
    print_report(report, finished, show, console)
    if json_file is not None:
        json_file.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if out is not None and finished:
        write_groups([(_words(one), one.records) for one in finished], out)
    if unfinished:
        sys.exit(130)


def make_room(path: Path) -> None:
    """Refuse a file that cannot be written before the attack, which may take hours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise TicketsError(f"{path} cannot be written: name a file in a folder that you may write to")


def _attack_all(duel: Duel, finished: list[Measured]) -> tuple[str, ...]:
    """Fill `finished`; what Ctrl-C cut off is named, with how far it had come."""
    meters: list[Meter] = []

    def begin(title: str, rows: int) -> Meter:
        meters.append(Meter(title, rows))
        return meters[-1]

    try:
        for one in measured(duel, begin):
            finished.append(one)  # one by one, for Ctrl-C may come between two
    except KeyboardInterrupt:
        left = duel.order[len(finished) :]
        reached = [meters[-1].done if meters else 0] + [0] * len(left)
        return tuple(
            f"{title(threat, model)}: {done} of {len(sample.rows)} rows"
            for (threat, model, sample), done in zip(left, reached, strict=False)
        )
    return ()


def _words(attacked: Measured) -> dict[str, str]:
    found = attacked.measurement
    return {"model": found.model, "threat": found.figures.threat, "fingerprint": found.figures.fingerprint}
