"""Names and values as MLflow takes them: legal characters, limited lengths, flat keys, batches. Pure Python."""

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

NAME_LENGTH = 250
PARAM_LENGTH = 500  # newer servers take 6000, older ones refuse more than 500
TAG_LENGTH = 5000  # newer servers take 8000
BATCH = 100  # params or tags per request; metrics may be 1000

T = TypeVar("T")


def legal_name(name: str) -> str:
    """`name` with characters and path parts that MLflow refuses replaced."""
    legal = re.sub(r"[^/\w.\- ]", "_", name)
    legal = posixpath.normpath(legal).lstrip("./ ") or "_"
    return legal[:NAME_LENGTH]


def shorten(value: object, limit: int) -> str:
    """`value` as text of at most `limit` characters; an ellipsis shows that something is missing."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as one mapping with dotted keys; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def without_passwords(tree: Any) -> Any:  # noqa: ANN401 - any part of the settings
    """`tree` with the passwords of all URLs in it starred out."""
    if isinstance(tree, Mapping):
        return {key: without_passwords(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [without_passwords(value) for value in tree]
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", tree) if isinstance(tree, str) else tree


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics MLflow can show, under legal names: NaN and infinities are left out."""
    return {legal_name(key): float(value) for key, value in metrics.items() if math.isfinite(value)}


def batches(items: Sequence[T], size: int = BATCH) -> Iterator[Sequence[T]]:
    """`items` in order, in pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
