"""What it takes to train a model, and what that is compared with."""

from typing import Literal

from pydantic import Field

from tune_tickets.records.base import Record


class Training(Record):
    """What training costs. A pass of a ticket counts as one of the whole model; seconds show that it is smaller."""

    passes: float = Field(description="Forward and backward passes over all training rows, each adversarial pass one")
    seconds: float = Field(description="Time in training steps, without loading and looks at the model")

    def __add__(self, other: "Training") -> "Training":
        return Training(passes=self.passes + other.passes, seconds=self.seconds + other.seconds)


class Cost(Record):
    """What it takes to get one trained model; what trials share is counted in full for each of them."""

    retraining: Training = Field(description="Training the model itself, the ticket once it is drawn")
    search: Training = Field(description="Training to find the ticket; 0 for controls and baselines")

    @property
    def total(self) -> Training:
        """With the search."""
        return self.retraining + self.search

    def metrics(self) -> dict[str, float]:
        """As one flat mapping, the names used in MLflow."""
        own, total = self.retraining, self.total
        passes = {"cost/passes": own.passes, "cost/passes_with_search": total.passes}
        return passes | {"cost/seconds": own.seconds, "cost/seconds_with_search": total.seconds}


class CostBaseline(Record):
    """Adversarial training of the whole model: what the cost of a ticket is compared with."""

    adversary: Literal["pgd", "freelb"]
    trial: str | None = Field(description="The best trial that trained so; null if none did and it is computed")
    steps: int = Field(description="K of the adversary")
    epochs: int
    passes: float
    seconds: float | None = Field(description="Measured in the trial; null if computed")
