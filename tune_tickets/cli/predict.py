"""The verb `predict`: what a saved model answers to a text, a pair of texts, or every line of stdin."""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from tune_tickets.errors import DataError
from tune_tickets.models.classifier import Classifier, load_classifier
from tune_tickets.reports.attacked import harmless
from tune_tickets.results.folder import best_ticket

STDIN = "-"
_BATCH = 32


def predict(ticket: str, text: str, second: str | None, as_json: bool) -> None:
    """Print one answer per text or pair, in order."""
    classifier = load_classifier(best_ticket(ticket))
    rows = _lines(classifier) if text == STDIN and second is None else [_row(text, second)]
    for batch in _batches(rows, size=1 if sys.stdin.isatty() else _BATCH):
        for row, shares in zip(batch, classifier.probabilities(batch, _BATCH).tolist(), strict=True):
            by_label = dict(zip(classifier.labels, shares, strict=True))
            print(_json(row, by_label) if as_json else _words(by_label), flush=True)


def _row(text: str, second: str | None) -> tuple[str, ...]:
    return (text,) if second is None else (text, second)


def _lines(classifier: Classifier) -> Iterator[tuple[str, ...]]:
    """One text per line; for a ticket that reads pairs, two texts with a tab between them."""
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
    """The most probable label first."""
    ranked = sorted(by_label.items(), key=lambda pair: -pair[1])
    return "  ".join(f"{harmless(label, sys.stdout.encoding or 'utf-8')} {100 * share:.1f}%" for label, share in ranked)


def _json(row: tuple[str, ...], by_label: dict[str, float]) -> str:
    return json.dumps({"texts": row, "label": max(by_label, key=by_label.__getitem__), "probabilities": by_label})
