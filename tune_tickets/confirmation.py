"""What `confirm` leaves behind: plain records, and the schema of `confirm.json`. Percentages, as in `records`."""

from typing import Any, Literal

from pydantic import Field

from tune_tickets.records import Record

CONFIRM_SCHEMA = 1
ModelKind = Literal["ticket", "dense", "random"]


class SeedRun(Record):
    """One model trained with one fresh seed and measured on the report rows."""

    model: str = Field(description="'t003', 'dense' or 'random like t003'")
    seed: int
    status: Literal["complete", "failed"]
    metrics: dict[str, float] = Field(default_factory=dict, description="As of a trial, but on report rows")
    error: str | None = None
    retrain_digest: str | None = Field(None, description="Stage whose weights these figures belong to")


class Estimate(Record):
    """The mean over the seeds that were measured, and its 95% interval (t over seeds)."""

    mean: float
    interval: tuple[float, float] | None = Field(description="Null with fewer than two seeds")
    seeds: int = Field(description="How many seeds the mean is over")


class ConfirmedModel(Record):
    """One model over all seeds; failed ones are counted, not dropped."""

    name: str
    kind: ModelKind
    trial: str | None = Field(description="The trial whose ticket it is, or whose ticket a random one is like")
    title: str = Field(description="What tables call it")
    params: dict[str, Any]
    failed: int = Field(description="How many of the seeds failed")
    estimates: dict[str, Estimate]
    runs: tuple[SeedRun, ...]


class SeedTest(Record):
    """Paired t-test over the seeds that both models were measured with."""

    ticket: str
    other: str
    metric: str
    difference: float = Field(description="Points, ticket minus other, mean over seeds")
    interval: tuple[float, float] | None
    p_value: float | None = Field(description="Two-sided; null with fewer than two seeds")
    seeds: int


class Confirmation(Record):
    """`confirm.json`."""

    schema_version: int = CONFIRM_SCHEMA
    experiment: str
    config_digest: str
    report_fingerprint: str = Field(description="Of the report rows, which nothing was chosen by")
    rows: int = Field(description="Report rows")
    attacked_rows: int = Field(description="How many of them were attacked, the same for every model and seed")
    seeds: tuple[int, ...]
    tickets: tuple[str, ...] = Field(description="The trials confirmed, best first by the objective on select rows")
    models: tuple[ConfirmedModel, ...]
    tests: tuple[SeedTest, ...]
    total_seconds: float
