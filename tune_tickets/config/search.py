"""`search:` how many trials, proposed by which sampler, pruned by which scheduler."""

from typing import Annotated, Any, Literal

from pydantic import Field

from tune_tickets.config.section import Section


class Asha(Section):
    """Asynchronous successive halving on the probe of every epoch."""

    kind: Literal["asha"] = "asha"
    grace_epochs: int = Field(1, ge=1, description="Epochs before a trial can be stopped")
    reduction_factor: int = Field(3, ge=2, le=16, description="One in this many trials goes on at each rung")


class NoScheduler(Section):
    """Every trial runs to its end."""

    kind: Literal["none"] = "none"


Scheduler = Annotated[Asha | NoScheduler, Field(discriminator="kind")]


class Search(Section):
    """Ray Tune with Optuna."""

    trials: int = Field(8, ge=1, le=100_000, description="Trials in all, warm starts included")
    concurrency: int = Field(2, ge=1, le=10_000, description="Trials under way at once; near the number of stage slots")
    sampler: Literal["tpe", "random"] = Field("tpe", description="Optuna sampler")
    startup_trials: int = Field(5, ge=0, description="Random trials before TPE starts to learn")
    scheduler: Scheduler = Field(default_factory=Asha)
    warm_starts: tuple[dict[str, Any], ...] = Field(
        (), description="Points tried first: dotted path -> value, such as {method.gamma: 0.1}"
    )
    failures_in_a_row: int = Field(3, ge=1, description="Failed trials in a row that stop the search")
