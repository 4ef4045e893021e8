"""`evaluation.masked_lm:` a masked language model of one's own, for attacks that propose words by one."""

from typing import Any

from pydantic import Field

from tune_tickets.config.section import LearningRate, Ratio, Section


class Fitting(Section):
    """A masked-LM head fitted on the backbone from plain text; a checkpoint that has one is used as it is."""

    held_out: int = Field(200, ge=1, description="Further texts on which its accuracy is measured")
    max_length: int = Field(64, ge=8, le=4096, description="Tokens of a text, or of a block")
    blocks: bool = Field(False, description="Join the texts and cut them into blocks of max_length")
    mask_probability: Ratio = Field(0.15, gt=0.0, description="Share of tokens to be guessed while fitting")
    epochs: float = Field(1.0, gt=0.0, le=100.0, description="Passes over the texts, perhaps a part of one")
    batch_size: int = Field(16, ge=1, le=4096, description="Texts per optimizer step")
    train_backbone: bool = Field(True, description="Whether the backbone is trained along, or only the head")
    learning_rate: LearningRate = Field(3e-4, description="AdamW learning rate of the backbone")
    head_learning_rate: LearningRate = Field(1e-3, description="The same for the new head")
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")

    def fitting_inputs(self) -> dict[str, Any]:
        """What the fitted model depends on beside its texts and the backbone."""
        return self.model_dump(mode="json", include=set(Fitting.model_fields))


class MaskedLM(Fitting):
    """The masked language model of an attack: its texts and size, and how its head is fitted."""

    corpus: str = Field(
        "task",
        min_length=1,
        description="'task' (its training texts), 'bundled/reviews', 'bundled/rotten-tomatoes', 'bundled/imdb', a hub "
        "id and subset as 'id:subset', or a text file (a text per line, also .gz) or a folder of them",
    )
    layers: int | None = Field(None, ge=1, le=96, description="Its first n layers of the backbone; null: as the model")
    rows: int = Field(4000, ge=1, description="Texts it is fitted on at most, a seeded sample")
