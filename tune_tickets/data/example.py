"""The one row type that training, attacks and evaluation see."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One labelled text, or pair of texts; `label` is an index into the task's label names."""

    texts: tuple[str, ...]
    label: int
