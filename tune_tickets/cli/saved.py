"""The verbs for a saved model: `predict` and `export`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tune_tickets.cli.options import Offline, SavedModel
from tune_tickets.errors import DataError
from tune_tickets.offline import go_offline

if TYPE_CHECKING:
    from tune_tickets.models.classifier import Classifier

_STDIN = "-"
_BATCH = 32


def predict(
    ticket: SavedModel,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, or - to read one text per line from stdin")],
    second: Annotated[str | None, typer.Argument(metavar="SECOND", help="The second text of a pair")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line")] = False,
    offline: Offline = False,
) -> None:
    """Print the label of a text and the probability of every label."""
    if offline:
        go_offline()
    from tune_tickets.models.classifier import load_classifier
    from tune_tickets.results.folder import best_ticket

    classifier = load_classifier(best_ticket(ticket))
    given = (text,) if second is None else (text, second)
    rows = _lines(classifier) if given == (_STDIN,) else [given]
    for batch in _batches(rows, size=1 if sys.stdin.isatty() else _BATCH):
        for row, shares in zip(batch, classifier.probabilities(batch, _BATCH).tolist(), strict=True):
            by_label = dict(zip(classifier.labels, shares, strict=True))
            print(_json(row, by_label) if as_json else _words(by_label), flush=True)


def _lines(classifier: Classifier) -> Iterator[tuple[str, ...]]:
    """Yield one text per line of stdin; for a model of pairs, two texts with a tab between them."""
    pairs = classifier.columns is not None and len(classifier.columns) == 2
    for number, line in enumerate(sys.stdin.buffer, start=1):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        row = tuple(text.split("\t")) if pairs else (text,)
        if pairs and len(row) != 2:
            raise DataError(
                f"stdin, line {number}: {len(row)} texts where a pair was expected; put one tab between them"
            )
        yield row


def _batches(rows: Iterable[tuple[str, ...]], size: int) -> Iterator[list[tuple[str, ...]]]:
    left = iter(rows)
    while batch := list(islice(left, size)):
        yield batch


def _words(by_label: dict[str, float]) -> str:
    """Return labels with percentages, the most probable label first."""
    from tune_tickets.reports.attacked import harmless

    ranked = sorted(by_label.items(), key=lambda pair: -pair[1])
    return "  ".join(f"{harmless(label, sys.stdout.encoding or 'utf-8')} {100 * share:.1f}%" for label, share in ranked)


def _json(row: tuple[str, ...], by_label: dict[str, float]) -> str:
    return json.dumps({"texts": row, "label": max(by_label, key=by_label.__getitem__), "probabilities": by_label})


def export(
    ticket: SavedModel,
    form: Annotated[
        str,
        typer.Option(
            "--format", help="hf: plain transformers folder; pruned: the small model for load_ticket; onnx: onnxruntime"
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder to write; default: next to the ticket")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an earlier export")] = False,
    task: Annotated[
        str | None, typer.Option(help="With a results folder: the ticket that was trained on this further task")
    ] = None,
    offline: Offline = False,
) -> None:
    """Write a ticket as a folder that other programs can load, with a ticket card."""
    if offline:
        go_offline()
    from tune_tickets.export.card import FILE
    from tune_tickets.export.exporting import export_ticket
    from tune_tickets.reports.attacked import say
    from tune_tickets.results.folder import best_ticket

    steps = Console(stderr=True)
    best = best_ticket(ticket)  # raises with the reason if there is none
    named = best if task is None else ticket
    folder = export_ticket(named, form, output, force, task, lambda text: say(steps, text, style="dim"))
    megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    say(Console(), f"{folder} ({megabytes:.1f} MB); its {FILE} explains how to use it")
