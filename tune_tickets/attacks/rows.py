"""What goes into an attack and what comes out of it: plain rows and records, without torch or TextAttack."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["failed", "successful", "skipped"]


@dataclass(frozen=True)
class AttackRow:
    """A labelled example; `index` is its number in the task and seeds its attack."""

    index: int
    texts: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class AttackRecord:
    """One attacked example. A failed attack is one the model withstood; a skipped row was wrong from the start."""

    index: int
    texts: tuple[str, ...]
    perturbed_texts: tuple[str, ...]
    label: int
    prediction: int
    perturbed_prediction: int
    status: Status
    queries: int
    words_changed: float
    """% of all the row's words that were replaced."""
    similarity: float | None
    """Cosine of the sentence embeddings of the attacked text before and after; None if skipped."""
