"""Names, values and params in the form that MLflow accepts. Pure Python."""

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tune_tickets.config.section import parse_fraction

NAME_LENGTH = 250
PARAM_LENGTH = 500  # newer servers accept 6000, older ones only 500
TAG_LENGTH = 5000  # newer servers accept 8000
BATCH = 100  # params or tags per request

T = TypeVar("T")


def legal_name(name: str) -> str:
    """Replace characters and path parts that MLflow rejects."""
    legal = re.sub(r"[^/\w.\- ]", "_", name)
    legal = posixpath.normpath(legal).lstrip("./ ") or "_"
    return legal[:NAME_LENGTH]


def shorten(value: object, limit: int) -> str:
    """Return the value as text of at most `limit` characters. An ellipsis marks a cut."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested sections as one mapping with dotted keys. Lists are not flattened."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def without_passwords(tree: Any) -> Any:  # noqa: ANN401 - any part of the settings
    """Return `tree` with the passwords in its URLs replaced by stars."""
    if isinstance(tree, Mapping):
        return {key: without_passwords(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [without_passwords(value) for value in tree]
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", tree) if isinstance(tree, str) else tree


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics under legal names, without NaN and infinities."""
    return {legal_name(key): float(value) for key, value in metrics.items() if math.isfinite(value)}


def batches(items: Sequence[T], size: int = BATCH) -> Iterator[Sequence[T]]:
    """Yield the items in order, in pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


_COMPARED = (
    "method.kind",
    "method.penalty",  # λ
    "method.penalty_heads",  # λ_H
    "method.penalty_neurons",  # λ_N
    "method.gamma",  # γ
    "method.sparsity",
    "method.drawing.heads",  # ratios
    "method.drawing.neurons",
    "method.adversary.kind",
    "method.adversary.steps",
    "method.adversary.step_size",
    "method.adversary.magnitude",  # ε
    "method.debiasing.loss",
    "retraining.learning_rate",
    "retraining.epochs",
    "retraining.adversary.kind",
    "retraining.adversary.steps",
    "retraining.adversary.step_size",
    "retraining.adversary.magnitude",
    "retraining.debiasing.loss",
    "retraining.regulariser.kind",
)
"""Settings that methods are compared by. MLflow's parallel coordinates need a value of each in every run."""


def coordinates(settings: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a trial's run: the searched `params`, and fixed settings that methods are compared by."""
    flat = flatten(settings)
    fixed = {name: flat[name] for name in _COMPARED if isinstance(flat.get(name), str | int | float)}
    return {name: parse_fraction(value) for name, value in (fixed | dict(params)).items()}
