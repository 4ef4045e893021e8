"""`search:` how many trials, proposed by which sampler, pruned by which scheduler."""

from typing import Annotated, Any, Literal

from pydantic import Field

from tune_tickets.config.budget import Budget
from tune_tickets.config.section import Section


class Asha(Section):
    """Asynchronous successive halving on the probe of every epoch."""

    kind: Literal["asha"] = "asha"
    grace_epochs: int = Field(1, ge=1, description="Epochs before a trial can be stopped")
    reduction_factor: int = Field(3, ge=2, le=16, description="One in this many trials goes on at each rung")


class Median(Section):
    """A trial ends whose best probe so far is below the median of the others' running means."""

    kind: Literal["median"] = "median"
    grace_epochs: int = Field(1, ge=1, description="Epochs before a trial can be stopped")
    least_trials: int = Field(3, ge=1, description="Other trials that must have come as far before one is stopped")


class NoScheduler(Section):
    """Every trial runs to its end."""

    kind: Literal["none"] = "none"


Scheduler = Annotated[Asha | Median | NoScheduler, Field(discriminator="kind")]


class Search(Section):
    """Ray Tune with Optuna."""

    trials: int = Field(8, ge=1, le=100_000, description="Trials in all, warm starts included")
    concurrency: int = Field(2, ge=1, le=10_000, description="Trials under way at once; near the number of stage slots")
    sampler: Literal["tpe", "multivariate-tpe", "group-tpe", "nsga2", "gp", "random", "grid"] = Field(
        "tpe", description="Optuna sampler; group-tpe models the branches of conditions together, grid tries each point"
    )
    startup_trials: int = Field(5, ge=0, description="Random trials before a TPE or the GP starts to learn")
    population: int = Field(20, ge=2, description="Trials in a generation of NSGA-II")
    scheduler: Scheduler = Field(default_factory=Asha)
    warm_starts: tuple[dict[str, Any], ...] = Field(
        (), description="Points tried first: dotted path -> value, such as {method.gamma: 0.1}"
    )
    budget: Budget = Field(default_factory=Budget)
    failures_in_a_row: int = Field(3, ge=1, description="Failed trials in a row that stop the search")
