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
class RowResult:
    """What is counted of an attacked row. A failed attack was withstood; a skipped row was wrong from the start."""

    index: int
    status: Status
    queries: int
    words_changed: float
    """% of all the row's words that were replaced."""
    similarity: float | None
    """Cosine of the sentence embeddings of the attacked text before and after; None unless the attack worked."""


@dataclass(frozen=True)
class AttackRecord(RowResult):
    """One attacked example with its texts."""

    texts: tuple[str, ...]
    perturbed_texts: tuple[str, ...]
    label: int
    prediction: int
    perturbed_prediction: int

    def counted(self) -> RowResult:
        """The record without its texts."""
        return RowResult(self.index, self.status, self.queries, self.words_changed, self.similarity)
