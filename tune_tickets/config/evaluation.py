"""`evaluation:` and `controls:` what is measured of a trained ticket, and what it is compared with."""

from pydantic import Field

from tune_tickets.config.section import Section


class Probe(Section):
    """The cheap look at robustness that ASHA prunes by: accuracy under an embedding-space PGD after every epoch."""

    rows: int = Field(64, ge=1, description="Select rows probed")
    steps: int = Field(2, ge=1, le=100, description="Ascent steps")
    step_size: float = Field(0.2, gt=0.0, le=10.0, description="Length of one ascent step (L2, per example)")


class Evaluation(Section):
    """Attacks on the select rows."""

    attacks: tuple[str, ...] = Field(
        ("textfooler/minilm", "textbugger/minilm"), min_length=1, description="Threat models by name"
    )
    rows: int = Field(100, ge=1, description="Select rows attacked, a seeded stratified sample")
    query_budget: int | None = Field(
        None, ge=1, description="Queries per example before an attack gives up; null: none"
    )
    batch_size: int = Field(64, ge=1, le=4096, description="Rows per forward pass")
    probe: Probe = Field(default_factory=Probe)


class Controls(Section):
    """Models that every ticket is compared with."""

    dense: bool = Field(True, description="Fine-tune and attack the whole model with the same retraining")
    random: bool = Field(False, description="Train and attack random tickets of the winner's sparsity")
    random_seeds: int = Field(1, ge=1, le=20, description="How many random tickets")
