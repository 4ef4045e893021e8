"""`search:`, `resources:` and `tracking:`: how the hyperparameter search runs, where, and where it is logged."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from tune_tickets.config.section import Section


class Budget(Section):
    """Limits in addition to `search.trials`. A stopped search can be resumed with a larger budget.

    GPU-hours and CPU-hours are those that finished stages reserved, summed over all sessions of the experiment.
    """

    gpu_hours: float | None = Field(None, gt=0.0, description="GPU-hours of all stages; null: no limit")
    cpu_hours: float | None = Field(None, gt=0.0, description="CPU-hours of all stages; null: no limit")
    wall_clock_hours: float | None = Field(None, gt=0.0, description="Hours that the driver runs; null: no limit")
    money: float | None = Field(None, gt=0.0, description="Running nodes x hours x price_per_node_hour; null: no limit")
    price_per_node_hour: float | None = Field(None, gt=0.0, description="Price of one node per hour, in your currency")

    @model_validator(mode="after")
    def _check_price(self) -> "Budget":
        if self.money is not None and self.price_per_node_hour is None:
            raise ValueError("a limit on money needs price_per_node_hour")
        return self

    def limits(self) -> dict[str, float]:
        """Return the limits that are set, by name."""
        return self.model_dump(include={"gpu_hours", "cpu_hours", "wall_clock_hours", "money"}, exclude_none=True)


class Resources(Section):
    """Resources of every stage. Trials only wait for stages and reserve none."""

    cpus: float = Field(1.0, gt=0.0, le=1024.0, description="CPUs per stage, and its torch threads (rounded up)")
    gpus: float = Field(0.0, ge=0.0, le=64.0, description="GPUs per stage; fractions share one GPU")
    retries: int = Field(2, ge=0, le=100, description="How often a stage is restarted after its worker or node died")
    checkpoint_seconds: float = Field(
        0.0,
        ge=0.0,
        description="Shortest time between two checkpoints of a training; 0: often enough to lose at most one "
        "mini-epoch",
    )
    lease_seconds: float = Field(
        60.0, ge=1.0, description="A stage of another cluster is taken over after this time without a heartbeat"
    )
    address: str | None = Field(None, description="Ray cluster to join ('auto' or an address); null: start a local one")


class Tracking(Section):
    """Where the search is logged."""

    mlflow: bool = Field(True, description="Log to MLflow")
    uri: str | None = Field(None, description="Tracking URI; null: a SQLite database in the results folder")
    experiment: str | None = Field(None, description="MLflow experiment; null: the name of this experiment")
    register_beaten: bool = Field(
        False, description="Give the alias 'best' also to a ticket that the dense control beats"
    )

    @model_serializer(mode="wrap")
    def _without_default(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave `register_beaten` out where it is not set, so that digests of older experiments stay valid."""
        found: dict[str, Any] = write(self)
        return {name: value for name, value in found.items() if name != "register_beaten" or value}


class Asha(Section):
    """Asynchronous successive halving on the probe of every epoch."""

    kind: Literal["asha"] = "asha"
    grace_epochs: int = Field(1, ge=1, description="Epochs before a trial can be stopped")
    reduction_factor: int = Field(3, ge=2, le=16, description="One in this many trials continues at each rung")


class Median(Section):
    """A trial is stopped if its best probe so far is below the median of the running means of the others."""

    kind: Literal["median"] = "median"
    grace_epochs: int = Field(1, ge=1, description="Epochs before a trial can be stopped")
    least_trials: int = Field(3, ge=1, description="Other trials that must have reached an epoch before one is stopped")


class NoScheduler(Section):
    """No trial is stopped early."""

    kind: Literal["none"] = "none"


Scheduler = Annotated[Asha | Median | NoScheduler, Field(discriminator="kind")]


class Search(Section):
    """The hyperparameter search: Ray Tune with Optuna."""

    trials: int = Field(8, ge=1, le=100_000, description="Number of trials, including warm starts")
    concurrency: int = Field(
        2,
        ge=1,
        le=10_000,
        description="Trials that run at the same time; about the number of stages that fit",
    )
    sampler: Literal["tpe", "multivariate-tpe", "group-tpe", "nsga2", "gp", "random", "grid"] = Field(
        "tpe",
        description="Optuna sampler; group-tpe models branches of conditions together, grid tries every point",
    )
    startup_trials: int = Field(5, ge=0, description="Random trials before a TPE sampler or the GP starts to learn")
    population: int = Field(20, ge=2, description="Trials per generation of NSGA-II")
    scheduler: Scheduler = Field(default_factory=Asha)
    warm_starts: tuple[dict[str, Any], ...] = Field(
        (), description="Points to try first: dotted path -> value, such as {method.gamma: 0.1}"
    )
    budget: Budget = Field(default_factory=Budget)
    failures_in_a_row: int = Field(3, ge=1, description="The search stops after this many failed trials in a row")
