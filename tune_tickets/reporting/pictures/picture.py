"""A drawn picture, ready for a file, an MLflow run or a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Picture:
    """One figure as vector and as pixels."""

    name: str
    """Stem of its files, e.g. `front`."""
    title: str
    caption: str
    """What is shown and how to read it, in a sentence or two."""
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Gallery:
    """All pictures of a search."""

    pictures: tuple[Picture, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Pictures for which there were no data, by name: why."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Pictures that could not be drawn though there were data: what went wrong."""
