"""Sections about training: `adversary`, `regulariser`, `debiasing`, `retraining` and `ablation`."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from tune_tickets.config.section import LearningRate, Ratio, Section
from tune_tickets.errors import ConfigError

ADVERSARIES = {"pgd": "PGD", "freelb": "FreeLB", "freelb++": "FreeLB++", "substitution": "Substitution"}
"""As the papers write them."""
_REWRITING = frozenset({"tries", "source", "word_share", "slip_share", "clean_share"})
"""Settings of the adversary that rewrites texts."""
_MOVING = frozenset({"steps", "step_size", "initial_magnitude", "norm", "max_norm", "fixed_dropout"})
"""Settings of the adversaries that move word embeddings."""
NO_WORDS = "none"
"""The source without substitutes: only slips of the keyboard."""
LOSSES = {"poe": "PoE", "reweight": "reweighting", "confidence": "confidence"}
"""Debiasing losses in titles."""


class Adversary(Section):
    """Adversarial training: how the inner maximisation is solved. Defaults: EarlyRobust Table 6, SST-2."""

    kind: Literal["freelb", "freelb++", "pgd", "substitution", "none"] = Field(
        "freelb",
        description="freelb: gradients accumulate over the steps; freelb++: the same without a ball, 30 steps unless "
        "written; pgd: one backward at the worst case; "
        "substitution: the worst of some rewritten texts; none: off",
    )
    steps: int = Field(5, ge=1, le=100, description="K, passes (freelb) or ascent steps (pgd)")
    step_size: float = Field(0.02, gt=0.0, le=10.0, description="Length of one ascent step")
    initial_magnitude: float = Field(0.05, ge=0.0, le=10.0, description="ε₀, size of the random start; 0: start at 0")
    norm: Literal["l2", "linf"] = Field("l2", description="Norm of the step and of the ball")
    max_norm: float = Field(0.0, ge=0.0, le=100.0, description="ε, radius of the ball; 0: unbounded")
    fixed_dropout: bool = Field(
        False,
        description="Use one dropout mask for all K passes, as the FreeLB paper; code of the ticket papers does not",
    )
    tries: int = Field(4, ge=1, le=64, description="substitution: k, random corruptions per row; the worst one trains")
    source: Literal["near50-forms", "near50-forms-wordnet", "near50-forms-cf8", "near50-forms-wordnet-cf8", "none"] = (
        Field(
            "near50-forms",
            description="substitution: where substitutes come from, as the attacks words/...; none: slips only",
        )
    )
    word_share: float = Field(
        0.3, ge=0.0, le=1.0, description="substitution: share of words drawn to be replaced; 0 with source none"
    )
    slip_share: float = Field(
        0.2, ge=0.0, le=1.0, description="substitution: share of words with a slip of the keyboard"
    )
    clean_share: Ratio = Field(0.2, description="substitution: share of rows that train without a change")

    @property
    def passes(self) -> float:
        """Forward and backward passes per training step. A pass without gradients, forward only, counts as a third.

        The last pass of PGD trains at the final delta. Substitution passes the tries of all rows forward except those
        that stay clean; this is the expected number.
        """
        if self.kind == "substitution":
            return 1 + (1 - self.clean_share) * self.tries / 3
        return {"none": 1, "pgd": self.steps + 1}.get(self.kind, self.steps)

    @property
    def reads_substitutes(self) -> bool:
        """Whether the training needs a table of substitutes."""
        return self.kind == "substitution" and self.source != NO_WORDS

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - any YAML value
        # Settings that this kind does not use must not prevent trials from sharing stages.
        if not isinstance(data, dict):
            return data
        kind = data.get("kind", "freelb")
        if kind == "none":
            return {"kind": "none"}
        dropped = _MOVING if kind == "substitution" else _REWRITING
        kept = {key: value for key, value in data.items() if key not in dropped}
        if kind == "freelb++":  # Li et al., 2021: more steps, no ball
            kept = {"steps": 30, **{key: value for key, value in kept.items() if key != "max_norm"}}
        return {**kept, "word_share": 0.0} if kept.get("source") == NO_WORDS else kept

    @model_validator(mode="after")
    def _check_shares(self) -> "Adversary":
        if self.kind == "substitution" and not 0 < self.word_share + self.slip_share <= 1:
            raise ValueError(
                f"word_share ({self.word_share:g}) and slip_share ({self.slip_share:g}) are shares of the same words: "
                "their sum must be above 0 and at most 1"
            )
        return self

    @model_serializer(mode="wrap")
    def _leave_out_other_kinds(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Also keeps the digests of stages that were stored before there was a kind that rewrites texts.
        unused = _MOVING if self.kind == "substitution" else _REWRITING
        return {key: value for key, value in serialise(self).items() if key not in unused}


class Regulariser(Section):
    """InfoBERT (Wang et al., 2021). Defaults: those of the authors' code (α, β, c_l, c_h and the critic)."""

    kind: Literal["infobert", "none"] = Field("infobert", description="infobert: both terms of InfoBERT; none: off")
    alpha: float = Field(5e-3, ge=0.0, le=100.0, description="α, weight of the anchored features; 0: off")
    beta: float = Field(5e-3, ge=0.0, le=100.0, description="β, weight of the information bottleneck; 0: off")
    low: Ratio = Field(0.5, description="c_l, words ranked below this share by gradient are too useless to anchor")
    high: float = Field(
        0.9,
        gt=0.0,
        le=1.0,
        description="c_h, words ranked above this share are too fragile to anchor",
    )
    critic_width: int = Field(300, ge=1, le=4096, description="Hidden width of the critic that compares two features")

    @model_validator(mode="before")
    @classmethod
    def _none_has_no_settings(cls, data: Any) -> Any:  # noqa: ANN401 - any YAML value
        # As for the adversary: settings without effect must not prevent trials from sharing stages.
        if isinstance(data, dict) and data.get("kind") == "none":
            return {"kind": "none"}
        return data

    @model_validator(mode="after")
    def _check_band(self) -> "Regulariser":
        if self.low >= self.high:
            raise ValueError(f"no word lies between low ({self.low:g}) and high ({self.high:g}): low must be less")
        return self


ENCODER_INPUT = "encoder-input"
"""Word vectors that are always available: the input embeddings of the encoder."""

_MEANT_FOR = {
    "vectors": ("overlap", "claim"),
    "further": ("overlap",),
    "column": ("overlap", "claim"),
    "markers": ("marker",),
}


class BiasModel(Section):
    """Logistic regression on biased features only (SRNets appendix B.3.1)."""

    features: Literal["overlap", "claim", "marker"] = Field(
        "overlap",
        description="overlap: word overlap of a pair (MNLI, QQP); claim: max-pooled word vectors of one text (FEVER); "
        "marker: which of `markers` a row contains",
    )
    vectors: str = Field(
        ENCODER_INPUT,
        min_length=1,
        description="'encoder-input': the encoder's input embeddings, or a fastText text file (.vec, .vec.gz)",
    )
    further: bool = Field(
        False, description="overlap: add log length difference and second-smallest similarity, as in the papers' code"
    )
    column: str | None = Field(
        None, description="Text column of the hypothesis or the claim; null: the last column of the task"
    )
    markers: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        strict=False,  # the validator below returns Python values, in which a tuple is still a list
        description="Words or signs to look for with features: marker; null: the markers of task.planted",
    )
    folds: int | None = Field(
        None,
        ge=2,
        le=100,
        description="Rows get the prediction of a model fitted without them; null: off, as in the paper",
    )

    @property
    def reads_vectors(self) -> bool:
        """Whether the features use word vectors."""
        return self.features != "marker"

    @property
    def reads_file(self) -> bool:
        """Whether the word vectors come from a file."""
        return self.reads_vectors and self.vectors != ENCODER_INPUT

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - any YAML value
        # Settings that the features do not use must not prevent trials from sharing stages.
        if not isinstance(data, dict):
            return data
        features = data.get("features", "overlap")
        return {key: value for key, value in data.items() if features in _MEANT_FOR.get(key, (features,))}


class Optimisation(Section):
    """What every training has: the optimizer and its schedule. Defaults: EarlyRobust section 4.4."""

    learning_rate: LearningRate = Field(2e-5, description="AdamW learning rate")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.01, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")


class Teacher(Optimisation):
    """The plain fine-tuning of the whole model that confidence regularisation learns from. Defaults: SRNets, MNLI."""

    learning_rate: LearningRate = Field(5e-5, description="AdamW learning rate")
    epochs: int = Field(3, ge=1, le=1000, description="Epochs")
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="AdamW weight decay, not on biases and LayerNorm")


class Debiasing(Section):
    """The loss of a training (SRNets section 3.3 and appendix A.2)."""

    loss: Literal["ce", "poe", "reweight", "confidence"] = Field(
        "ce",
        description="ce: cross entropy; poe: product of experts; reweight: example reweighting; "
        "confidence: confidence regularisation with a teacher",
    )
    normalise: bool = Field(
        False,
        description="reweight: divide by the weights of the batch (the code) instead of its rows (the paper)",
    )
    bias: BiasModel = Field(default_factory=BiasModel, description="Gives the bias degree β of every training row")
    teacher: Teacher = Field(
        default_factory=Teacher, description="Its predictions are scaled by confidence regularisation"
    )

    @property
    def experts(self) -> tuple[str, ...]:
        """Roles of the stages whose predictions the loss uses."""
        return {"ce": (), "confidence": ("bias", "teacher")}.get(self.loss, ("bias",))

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - any YAML value
        # As for the adversary: settings without effect must not prevent trials from sharing stages.
        if not isinstance(data, dict):
            return data
        loss = data.get("loss", "ce")
        dropped = {"normalise"} if loss != "reweight" else set()
        dropped |= {"teacher"} if loss != "confidence" else set()
        dropped |= {"bias"} if loss == "ce" else set()
        return {key: value for key, value in data.items() if key not in dropped}


def debiasings(section: Section) -> Iterator[Debiasing]:
    """Yield all debiasing sections inside a section, at any depth."""
    for value in dict(section).values():
        if isinstance(value, Debiasing):
            yield value
        elif isinstance(value, Section):
            yield from debiasings(value)


class Retraining(Optimisation):
    """Fine-tuning from the pre-trained weights. Defaults: EarlyRobust section 4.4."""

    epochs: int = Field(10, ge=1, le=1000, description="Epochs")
    adversary: Adversary = Field(
        default_factory=lambda: Adversary(kind="none"), description="Adversarial training; none, as in the paper"
    )
    regulariser: Regulariser = Field(
        default_factory=lambda: Regulariser(kind="none"), description="Terms added to the loss; none, as in the paper"
    )
    debiasing: Debiasing = Field(
        default_factory=Debiasing, description="Loss that relies less on dataset bias; ce, as in the paper"
    )

    @model_serializer(mode="wrap")
    def _leave_out_plain_cross_entropy(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Keeps the digests of stages that were stored before there was a choice of losses.
        written: dict[str, Any] = serialise(self)
        return written if self.debiasing.experts else {k: v for k, v in written.items() if k != "debiasing"}


class Ablation(Section):
    """Ablation of mask, weights or structure (RobustT and EarlyRobust Table 4, ORTicket Table 6)."""

    mask: Literal["found", "shuffled"] = Field(
        "found", description="shuffled: every layer keeps its sparsity, but at random places"
    )
    weights: Literal["pretrained", "reinitialised"] = Field(
        "pretrained", description="reinitialised: the ticket keeps its structure, but starts from random weights"
    )
    structure: Literal["kept", "discarded"] = Field(
        "kept", description="discarded: the whole model, with random weights where the ticket has none"
    )
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of shuffled places and random weights")

    def start_inputs(self) -> dict[str, Any]:
        """Return what a retraining starts from: nothing without an ablation, so that trials share stages."""
        if (self.weights, self.structure) == ("pretrained", "kept"):
            return {}
        return {"ablation": self.model_dump(mode="json", exclude={"mask"})}


Scope = Literal["global", "layer"]


class Drawing(Section):
    """Which share of heads and neurons is cut, and where scores compete. Defaults: EarlyRobust on SST-2."""

    heads: Ratio = Field(1 / 6, description="Share of attention heads removed; every layer keeps at least one")
    neurons: Ratio = Field(0.3, description="Share of intermediate neurons removed")
    heads_scope: Scope = Field("global", description="Heads compete over the whole model, or within each layer")
    neurons_scope: Scope = Field("global", description="Neurons compete over the whole model, or within each layer")


_READ_AT = {"steps": "steps", "interval": "patience", "patience": "patience", "improvement": "patience"}


class Start(Section):
    """At which point of the fine-tuning the pruning starts (section 5.1, appendix E.1)."""

    at: Literal["end", "steps", "patience"] = Field(
        "end", description="At the end, after a number of steps, or when it stops improving"
    )
    steps: int = Field(20000, ge=1, description="steps: optimizer steps of fine-tuning; the schedule does not change")
    interval: int = Field(1000, ge=1, description="patience: steps between two evaluations on the select rows")
    patience: int = Field(3, ge=1, le=1000, description="patience: evaluations without improvement before it ends")
    improvement: float = Field(
        0.5,
        ge=0.0,
        le=100.0,
        description="patience: points above the best so far that count as an improvement",
    )

    def leave_inputs(self) -> dict[str, Any]:
        """Return what a fine-tuning that ends here depends on: nothing at its end, so that trials share it."""
        used = {"at", *(name for name, at in _READ_AT.items() if at == self.at)}
        return {} if self.at == "end" else {"start": self.model_dump(mode="json", include=used)}

    def check(self, total_steps: int) -> None:
        """Raise ConfigError if a fine-tuning of `total_steps` steps never reaches this point."""
        name, first = ("steps", self.steps) if self.at == "steps" else ("interval", self.interval)
        if self.at != "end" and first > total_steps:
            raise ConfigError(
                f"method.start.{name} is {first}, but the fine-tuning has only {total_steps} steps: "
                "lower it, or set method.start.at to end"
            )

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - any YAML value
        # Settings that this kind of start does not read must not prevent trials from sharing stages.
        if not isinstance(data, dict):
            return data
        at = data.get("at", "end")
        return {key: value for key, value in data.items() if _READ_AT.get(key, at) == at}
