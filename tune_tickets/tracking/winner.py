"""A ticket on its way to the model registry, and the name it gets there. Pure Python."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Winner:
    """A ticket to be registered."""

    path: Path
    columns: tuple[str, ...]
    """The texts it reads."""
    run_id: str
    description: str
    tags: Mapping[str, str]


def model_name(experiment: str) -> str:
    """The experiment's name as the registry takes it: no slash, colon or quote."""
    return re.sub(r"[^\w .-]", "_", experiment).strip() or "_"
