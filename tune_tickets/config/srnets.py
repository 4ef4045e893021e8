"""`method: {kind: srnets}`: sparse subnetworks that are robust to dataset bias (Liu et al., 2022)."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import LearningRate, Ratio, Section, with_defaults
from tune_tickets.config.training import Debiasing, Retraining
from tune_tickets.errors import ConfigError

_FINETUNING: dict[str, Any] = {"epochs": 3, "learning_rate": 5e-5, "weight_decay": 0.0}  # appendix Table 3
MOST_LOOKS = 20
"""So many masks of a mask training are kept at most: one has a bit for every weight."""
_MEANT_FOR = {"steps": "steps", "interval": "patience", "patience": "patience", "improvement": "patience"}


class Start(Section):
    """At which point of the fine-tuning the pruning starts (section 5.1, appendix E.1)."""

    at: Literal["end", "steps", "patience"] = Field(
        "end", description="At its end, after a number of steps, or when it has stopped to improve"
    )
    steps: int = Field(20000, ge=1, description="steps: optimizer steps of the fine-tuning; its schedule stays")
    interval: int = Field(1000, ge=1, description="patience: steps between two looks at the select rows")
    patience: int = Field(3, ge=1, le=1000, description="patience: looks in a row without improvement that end it")
    improvement: float = Field(
        0.5,
        ge=0.0,
        le=100.0,
        description="patience: an improvement is more than so many points above the best so far",
    )

    def leave_inputs(self) -> dict[str, Any]:
        """What a fine-tuning depends on that is left at this point: nothing at its end, so that others share it."""
        used = {"at", *(name for name, at in _MEANT_FOR.items() if at == self.at)}
        return {} if self.at == "end" else {"start": self.model_dump(mode="json", include=used)}

    def check(self, total_steps: int) -> None:
        """Refuse a point that a fine-tuning of so many steps never reaches, or a rule that never looks."""
        name, first = ("steps", self.steps) if self.at == "steps" else ("interval", self.interval)
        if self.at != "end" and first > total_steps:
            raise ConfigError(
                f"method.start.{name} is {first}, but the fine-tuning has only {total_steps} steps: "
                "lower it, or set method.start.at to end"
            )

    @model_validator(mode="before")
    @classmethod
    def _keep_what_means_something(cls, data: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        # Settings that this kind of start does not read must not keep trials from sharing stages.
        if not isinstance(data, dict):
            return data
        at = data.get("at", "end")
        return {key: value for key, value in data.items() if _MEANT_FOR.get(key, at) == at}


class SRNets(Section):
    """Subnetworks by straight-through masks or magnitudes, under any loss. Defaults: SRNets Tables 3 and 4, MNLI."""

    kind: Literal["srnets"] = "srnets"
    pruning: Literal["mask_training", "imp", "imp_rewind"] = Field(
        "mask_training",
        description="Straight-through masks on frozen weights; magnitudes, with weights that go on training; the same, "
        "with the mask put on the pre-trained weights in the end",
    )
    paradigm: Literal["finetuned", "isolated", "pretrained"] = Field(
        "finetuned",
        description="A subnetwork of the fine-tuned model, taken as it is; its mask on the pre-trained weights, then "
        "fine-tuned (`retraining`); a subnetwork of the pre-trained model, taken as it is",
    )
    finetuning: Annotated[Retraining, with_defaults(_FINETUNING)] = Field(
        default_factory=lambda: Retraining(**_FINETUNING),
        description="Fine-tuning of the whole model before it is pruned; its debiasing is the first loss. Unless "
        "written, 3 epochs at 5e-5 without weight decay",
    )
    start: Start = Field(default_factory=Start, description="At which point of this fine-tuning the pruning starts")
    debiasing: Debiasing = Field(default_factory=Debiasing, description="The second loss: that of the pruning")
    ood_rows: bool = Field(
        False,
        description="Mask training also sees the training rows of the OOD twins (section 4.5): an upper bound, which "
        "marks the search `uses_ood_information`",
    )
    sparsity: Ratio = Field(0.5, description="s, share of the weights removed from every masked matrix")
    start_sparsity: Ratio | None = Field(
        None,
        description="Sparsity at the start of a mask training, grown by a cubic schedule; null: s throughout",
    )
    init: Literal["hard", "soft"] = Field(
        "hard", description="Real-valued masks start at 0 or αφ by magnitude (appendix eq. 1), or as |W| (eq. 2)"
    )
    phi: float = Field(0.01, gt=0.0, le=100.0, description="φ, the first threshold of a hard start")
    alpha: float = Field(2.0, ge=1.0, le=1000.0, description="α, how far above φ a hard start keeps a weight")
    pooler: bool = Field(
        False, description="Mask the dense layer below the classifier too, as the public code does; the paper does not"
    )
    eval_interval: int = Field(
        1000, ge=1, description="Steps of a mask training between two looks at the select rows and new thresholds"
    )
    eval_metric: Literal["accuracy", "weighted_f1"] = Field(
        "accuracy", description="By which the best mask is chosen on the select rows; the paper takes F1 for QQP"
    )
    select_after: Ratio | None = Field(
        None,
        description="Share of the mask training before a mask may be chosen; null: 0.7 on a fine-tuned model, 0 on the "
        "pre-trained one (appendix B.3.3)",
    )
    prune_step: float = Field(0.1, gt=0.0, le=1.0, description="Δs of IMP, share of every matrix that a cut removes")
    prune_interval: float = Field(0.1, gt=0.0, le=1.0, description="Δt of IMP, share of the training between two cuts")
    learning_rate: LearningRate = Field(5e-5, description="AdamW learning rate of the masks, or of IMP's weights")
    epochs: float = Field(5.0, gt=0.0, le=1000.0, description="Length of the pruning, t_max")
    batch_size: int = Field(32, ge=1, le=4096, description="Rows per optimizer step")
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="AdamW weight decay")
    warmup: Ratio = Field(0.1, description="Share of the schedule spent warming up")
    clip: float = Field(1.0, gt=0.0, le=1000.0, description="Gradient norm is clipped to this")

    @property
    def retrained(self) -> bool:
        """Whether the subnetwork is trained on its own, or taken as pruning leaves it."""
        return self.paradigm == "isolated"

    @property
    def from_finetuned(self) -> bool:
        """Whether pruning starts from a fine-tuned model; IMP with rewinding never does (section 4.3.1)."""
        return self.paradigm != "pretrained" and self.pruning != "imp_rewind"

    @property
    def chosen_after(self) -> float:
        """The share of a mask training before a mask may be chosen."""
        return (0.7 if self.from_finetuned else 0.0) if self.select_after is None else self.select_after

    def cuts(self) -> tuple[float, ...]:
        """IMP: the sparsity after every cut, multiples of Δs below `sparsity`, then `sparsity` itself."""
        # Rounded: 3 x 0.1 is 0.30000000000000004, and would share no stage with 0.3.
        count = max(1, math.ceil(round(self.sparsity / self.prune_step, 6)))
        return (*(round(number * self.prune_step, 12) for number in range(1, count)), self.sparsity)

    def interval(self, cut: int) -> tuple[float, float]:
        """IMP: the shares of t_max between which the model trains after a cut, counted from 1."""
        return round((cut - 1) * self.prune_interval, 12), round(cut * self.prune_interval, 12)

    def kept_looks(self, total_steps: int) -> tuple[int, ...]:
        """Mask training: the looks (from 1) whose masks are kept: all, or some that are spread evenly to the last."""
        looks = math.ceil(total_steps / self.eval_interval)
        kept = min(looks, MOST_LOOKS)
        return tuple(-(-number * looks // kept) for number in range(1, kept + 1))

    def mask_inputs(self) -> dict[str, Any]:
        """What a mask training depends on, beside the weights it starts from."""
        dropped = {"pruning", "paradigm", "finetuning", "start", "prune_step", "prune_interval"}
        if self.init == "soft":
            dropped |= {"phi", "alpha"}
        return self.model_dump(mode="json", exclude=dropped) | {"select_after": self.chosen_after}

    def interval_inputs(self) -> dict[str, Any]:
        """What the training between two cuts of IMP depends on, beside weights, mask and its share of t_max."""
        optimiser = {"learning_rate", "epochs", "batch_size", "weight_decay", "warmup", "clip"}
        return self.model_dump(mode="json", include={"kind", "debiasing", "pooler", *optimiser})

    @model_validator(mode="after")
    def _check_combinations(self) -> "SRNets":
        wanted = {"imp": "finetuned", "imp_rewind": "isolated"}.get(self.pruning, self.paradigm)
        if self.paradigm != wanted:
            raise ValueError(
                f"pruning: {self.pruning} gives subnetworks for paradigm: {wanted}, not {self.paradigm}; "
                "mask_training serves all three, imp the first and imp_rewind the second"
            )
        if self.ood_rows and (self.pruning != "mask_training" or self.debiasing.loss != "ce"):
            raise ValueError(
                "ood_rows join a mask training under cross entropy, as in the paper: a bias model knows only the rows "
                "of the task; set pruning to mask_training and debiasing.loss to ce"
            )
        if self.start_sparsity is not None and self.start_sparsity > self.sparsity:
            raise ValueError(
                f"start_sparsity {self.start_sparsity:g} is above sparsity {self.sparsity:g}, to which it grows"
            )
        # After its last cut IMP trains once more; with rewinding it is done.
        trained = len(self.cuts()) - (self.pruning == "imp_rewind")
        if self.pruning != "mask_training" and self.interval(trained)[1] > 1:
            raise ValueError(
                f"{len(self.cuts())} cuts every {self.prune_interval:g} of the training do not fit into it; "
                "lower prune_interval or raise prune_step"
            )
        return self
