"""Metrics on an out-of-distribution twin: how answers are counted, weighted F1, accuracy per group."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tune_tickets.results.records import OodFigures
from tune_tickets.results.statistics import wilson

_RESAMPLES = 2000
_ELSE = -1
"""The answer for every label that the twin does not have."""


def counted_as(predicted: Tensor, answers: Sequence[int | None]) -> Tensor:
    """Map each predicted class to a label of the twin (HANS: neutral and contradiction are non-entailment)."""
    table = torch.tensor([_ELSE if answer is None else answer for answer in answers])
    return table[predicted]


def choices(answers: Sequence[int | None], restrict: bool) -> Tensor | None:
    """The classes that a model chooses from: those with a label of the twin, or None for all."""
    known = [index for index, answer in enumerate(answers) if answer is not None]
    return torch.tensor(known) if restrict and len(known) < len(answers) else None


def weighted_f1(confusion: np.ndarray) -> np.ndarray:
    """Mean F1 of the classes weighted by their rows (SRNets B.1), in percent.

    `confusion` counts rows by true label and answer, [..., labels, labels + 1]. The last answer means any other label.
    A class without true rows and without answers has an F1 of 0 and no weight.
    """
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    true, answered = confusion.sum(axis=-1), confusion.sum(axis=-2)[..., :-1]
    f1 = 2 * hits / np.maximum(true + answered, 1)
    return np.asarray(100.0 * (f1 * true).sum(axis=-1) / true.sum(axis=-1))


def confusion_of(counted: Tensor, labels: Tensor) -> np.ndarray:
    """Rows by true label and answer, [labels, labels + 1]. The last answer means any other label."""
    classes = int(max(labels.max(), counted.max())) + 1
    confusion = np.zeros((classes, classes + 1), dtype=np.int64)
    np.add.at(confusion, (labels.numpy(), counted.numpy()), 1)  # the answer -1 is the last column
    return confusion


def ood_figures(
    name: str,
    metric: Literal["accuracy", "weighted_f1"],
    counted: Tensor,
    labels: Tensor,
    groups: Sequence[str | None],
    sample: str,
) -> OodFigures:
    """The metric of a twin with its interval, and the accuracy in each of its groups."""
    right = (counted == labels).tolist()
    value, interval = _accuracy(right) if metric == "accuracy" else _weighted_f1(counted, labels)
    members = {group: [hit for hit, of in zip(right, groups, strict=True) if of == group] for group in set(groups)}
    return OodFigures(
        name=name,
        metric=metric,
        value=value,
        interval=interval,
        rows=len(right),
        groups={group: _accuracy(members[group])[0] for group in sorted(filter(None, members))},
        right=tuple(right),
        sample=sample,
    )


def _accuracy(right: Sequence[bool]) -> tuple[float, tuple[float, float]]:
    return 100.0 * sum(right) / len(right), wilson(sum(right), len(right))


def _weighted_f1(counted: Tensor, labels: Tensor) -> tuple[float, tuple[float, float]]:
    """With a percentile bootstrap of the rows: resampling n rows is drawing their confusion from a multinomial."""
    confusion, rows = confusion_of(counted, labels), len(labels)
    drawn = np.random.default_rng(0).multinomial(rows, confusion.ravel() / rows, size=_RESAMPLES)
    low, high = np.percentile(weighted_f1(drawn.reshape(-1, *confusion.shape)), (2.5, 97.5))
    return float(weighted_f1(confusion)), (float(low), float(high))
