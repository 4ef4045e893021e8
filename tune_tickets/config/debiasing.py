"""`debiasing:` a training loss that leans less on dataset bias, and the bias model that tells how biased a row is."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import LearningRate, Ratio, Section

ENCODER_INPUT = "encoder-input"
"""Word vectors that every experiment has: the input embeddings of its encoder."""

_MEANT_FOR = {
    "vectors": ("overlap", "claim"),
    "further": ("overlap",),
    "column": ("overlap", "claim"),
    "markers": ("marker",),
}


class BiasModel(Section):
    """Logistic regression on what should not decide (SRNets appendix B.3.1)."""

    features: Literal["overlap", "claim", "marker"] = Field(
        "overlap",
        description="overlap: word overlap of a pair (MNLI, QQP); claim: max-pooled word vectors of one text (FEVER); "
        "marker: which of `markers` a row holds",
    )
    vectors: str = Field(
        ENCODER_INPUT,
        min_length=1,
        description="'encoder-input': the encoder's input embeddings, or a fastText text file (.vec, .vec.gz)",
    )
    further: bool = Field(
        False, description="Overlap also has log length difference and second-least similarity, as in the papers' code"
    )
    column: str | None = Field(
        None, description="Text column of the hypothesis or the claim; null: the last of the task"
    )
    markers: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        strict=False,  # a validator before it has turned JSON, where lists are tuples, into Python
        description="The words or signs that features: marker looks for; null: those that task.planted plants",
    )
    folds: int | None = Field(
        None, ge=2, le=100, description="Rows get the prediction of a model fitted without them; null: as in the paper"
    )

    @property
    def reads_vectors(self) -> bool:
        """Whether the features are made of word vectors."""
        return self.features != "marker"

    @property
    def reads_file(self) -> bool:
        """Whether these come from a file."""
        return self.reads_vectors and self.vectors != ENCODER_INPUT

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        # Settings that the features do not read must not keep trials from sharing stages.
        if not isinstance(data, dict):
            return data
        features = data.get("features", "overlap")
        return {key: value for key, value in data.items() if features in _MEANT_FOR.get(key, (features,))}


class Teacher(Section):
    """The plain fine-tuning of the whole model that confidence regularisation learns from. Defaults: SRNets, MNLI."""

    learning_rate: LearningRate = Field(5e-5, description="AdamW learning rate")
    epochs: int = Field(3, ge=1, le=1000, description="Epochs")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")


class Debiasing(Section):
    """Which loss a training minimises (SRNets section 3.3 and appendix A.2)."""

    loss: Literal["ce", "poe", "reweight", "confidence"] = Field(
        "ce",
        description="ce: cross entropy; poe: product of experts; reweight: example reweighting; "
        "confidence: confidence regularisation by a teacher",
    )
    normalise: bool = Field(
        False, description="reweight: divide by the weights of the batch (the code) instead of its rows (the paper)"
    )
    bias: BiasModel = Field(default_factory=BiasModel, description="Tells the bias degree β of every training row")
    teacher: Teacher = Field(default_factory=Teacher, description="Whose predictions confidence regularisation scales")

    @property
    def experts(self) -> tuple[str, ...]:
        """The roles of the stages whose predictions the loss reads."""
        return {"ce": (), "confidence": ("bias", "teacher")}.get(self.loss, ("bias",))

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        # As for the adversary: settings that mean nothing must not keep trials from sharing stages.
        if not isinstance(data, dict):
            return data
        loss = data.get("loss", "ce")
        dropped = {"normalise"} if loss != "reweight" else set()
        dropped |= {"teacher"} if loss != "confidence" else set()
        dropped |= {"bias"} if loss == "ce" else set()
        return {key: value for key, value in data.items() if key not in dropped}


def debiasings(section: Section) -> Iterator[Debiasing]:
    """All debiasing sections within a section, wherever a method has put them."""
    for value in dict(section).values():
        if isinstance(value, Debiasing):
            yield value
        elif isinstance(value, Section):
            yield from debiasings(value)
