"""`resources:` what one stage of a trial may use. CPU, a fraction of a GPU or many nodes: only this section differs."""

from pydantic import Field

from tune_tickets.config.section import Section


class Resources(Section):
    """Resources of every stage task; coordinating trials hold none."""

    cpus: float = Field(1.0, gt=0.0, le=1024.0, description="CPUs per stage")
    gpus: float = Field(0.0, ge=0.0, le=64.0, description="GPUs per stage; fractions share one GPU")
    threads: int | None = Field(None, ge=1, description="torch threads per stage; null takes cpus, rounded up")
    retries: int = Field(2, ge=0, le=100, description="How often a stage whose worker or node died is tried again")
    checkpoint_seconds: float = Field(
        0.0,
        ge=0.0,
        description="Least time between two checkpoints of a training; 0: as often as it takes to lose no more than a "
        "mini-epoch",
    )
    lease_seconds: float = Field(
        60.0, ge=1.0, description="After this time without a sign of life a stage of another cluster is taken over"
    )
    address: str | None = Field(None, description="Ray cluster to join ('auto' or an address); null starts a local one")
