"""SRNets: sparse subnetworks that are robust to dataset bias (Liu et al., 2022). Their code: `pruning`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import LearningRate, Ratio, with_defaults
from tune_tickets.config.training import LOSSES, Ablation, Debiasing, Drawing, Optimisation, Retraining, Start
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.runner import later, unheard
from tune_tickets.engine.stage import Stage, StageKey, StageResult, Work
from tune_tickets.methods.base import Flow, Method
from tune_tickets.methods.stages import (
    WEIGHTS_FILE,
    Draw,
    ModelStage,
    Retrain,
    Sizes,
    training_work,
    twins_text,
)

if TYPE_CHECKING:
    from tune_tickets.config import Settings

LOOKS_FILE = "looks.safetensors"
_FINETUNING: dict[str, Any] = {"epochs": 3, "learning_rate": 5e-5, "weight_decay": 0.0}  # appendix Table 3
MOST_LOOKS = 20
"""The most masks of a mask training that are kept. Each has one bit per weight."""


class SRNets(Method, Optimisation):
    """Subnetworks by straight-through masks or magnitudes, under any loss. Defaults: SRNets Tables 3 and 4, MNLI."""

    masks_classifier: ClassVar[bool] = True

    kind: Literal["srnets"] = "srnets"
    pruning: Literal["mask_training", "imp", "imp_rewind"] = Field(
        "mask_training",
        description="Straight-through masks on frozen weights; magnitudes of weights that keep training; the "
        "same, with the final mask applied to the pre-trained weights",
    )
    paradigm: Literal["finetuned", "isolated", "pretrained"] = Field(
        "finetuned",
        description="A subnetwork of the fine-tuned model, unchanged; its mask on the pre-trained weights, then "
        "fine-tuned (`retraining`); a subnetwork of the pre-trained model, unchanged",
    )
    finetuning: Annotated[Retraining, with_defaults(_FINETUNING)] = Field(
        default_factory=lambda: Retraining(**_FINETUNING),
        description="Fine-tuning of the whole model before it is pruned; its debiasing is the first loss. Unless "
        "written, 3 epochs at 5e-5 without weight decay",
    )
    start: Start = Field(default_factory=Start, description="Where in this fine-tuning the pruning starts")
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
        1000,
        ge=1,
        description="Steps of a mask training between two looks at the select rows, which set new thresholds",
    )
    eval_metric: Literal["accuracy", "weighted_f1"] = Field(
        "accuracy", description="Metric that chooses the best mask on the select rows; the paper uses F1 for QQP"
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
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="AdamW weight decay")

    @property
    def retrained(self) -> bool:
        """Whether the subnetwork is trained on its own after pruning."""
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
        # Rounded: 3 x 0.1 is 0.30000000000000004 and would not share stages with 0.3.
        count = max(1, math.ceil(round(self.sparsity / self.prune_step, 6)))
        return (*(round(number * self.prune_step, 12) for number in range(1, count)), self.sparsity)

    def interval(self, cut: int) -> tuple[float, float]:
        """IMP: the training after a cut (from 1), as the shares of t_max where it starts and ends."""
        return round((cut - 1) * self.prune_interval, 12), round(cut * self.prune_interval, 12)

    def kept_looks(self, total_steps: int) -> tuple[int, ...]:
        """Mask training: the looks (from 1) whose masks are kept: all, or a selection with even distances."""
        looks = math.ceil(total_steps / self.eval_interval)
        kept = min(looks, MOST_LOOKS)
        return tuple(-(-number * looks // kept) for number in range(1, kept + 1))

    def mask_inputs(self) -> dict[str, Any]:
        """What a mask training depends on, in addition to its weights."""
        dropped = {"pruning", "paradigm", "finetuning", "start", "prune_step", "prune_interval"}
        if self.init == "soft":
            dropped |= {"phi", "alpha"}
        return self.model_dump(mode="json", exclude=dropped) | {"select_after": self.chosen_after}

    def interval_inputs(self) -> dict[str, Any]:
        """What the training between two cuts of IMP depends on, in addition to weights, mask and share of t_max."""
        optimiser = {"epochs", *Optimisation.model_fields}
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
                "ood_rows need a mask training with cross entropy, as in the paper: a bias model knows only the rows "
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

    @property
    def trains_on_ood(self) -> bool:
        """Whether rows of the OOD twins join the mask training."""
        return self.ood_rows

    def changes(self) -> Iterator[str]:
        """The pruning, the paradigm, and the losses that are not cross entropy."""
        if self.pruning != "mask_training":
            yield "IMP" if self.pruning == "imp" else "IMP rewound"
        elif self.paradigm != "finetuned":
            yield self.paradigm
        if self.from_finetuned and self.finetuning.debiasing.loss != "ce":
            yield f"{LOSSES[self.finetuning.debiasing.loss]} fine-tuned"
        if self.debiasing.loss != "ce":
            yield f"{LOSSES[self.debiasing.loss]} pruned"
        if self.ood_rows:
            yield "OOD rows"

    def check(self, settings: "Settings") -> None:
        """OOD rows must exist. A subnetwork without retraining has none to change or to repeat on other tasks."""
        planted = settings.task.planted
        if self.ood_rows and not any(twin.train for twin in settings.task.ood) and not (planted and planted.train_rows):
            raise ValueError(
                "method.ood_rows asks for OOD rows to train on, but no twin has any: give one of task.ood a `train` "
                "section, or task.planted some train_rows"
            )
        if self.retrained:
            return
        if settings.ablation.start_inputs():
            raise ValueError(
                f"with method.paradigm {self.paradigm} a subnetwork is not retrained, but ablation.weights and "
                "ablation.structure change the retraining: leave them out, or set method.paradigm to isolated"
            )
        if settings.transfer:
            raise ValueError(
                f"with method.paradigm {self.paradigm} a subnetwork is not retrained, so it cannot be trained on "
                "the tasks of transfer: set method.paradigm to isolated, or leave transfer out"
            )

    def ticket(self, flow: Flow, drawing: Drawing | None = None) -> StageKey:
        """Prune the fine-tuned or the pre-trained model, by a mask training or by magnitude."""
        weights = self._pruned_weights(flow)
        if self.pruning != "mask_training":
            return self._cut(flow, weights)
        trained = MaskTraining(
            **flow.model_inputs(),
            method=self.mask_inputs(),
            eval_batch_size=flow.settings.evaluation.batch_size,
            data=flow.world.data,
            weights=weights,
            ood_train=flow.world.ood_train if self.ood_rows else None,
            **flow.experts(self.debiasing),
        )
        masks = flow.run(trained, flow.on_record).key
        drawn = flow.run(Draw(kind="found", search=masks), flow.on_record).key
        flow.drawn_from[drawn.content] = weights
        if flow.world.measured is None:  # report rows are only used for the metrics of a finished ticket
            self._follow_out_of_distribution(flow, masks, weights)
        return drawn

    def training(self, flow: Flow, ticket: StageKey, ablation: Ablation | None) -> Stage:
        """Retrain the subnetwork, or use it as pruning leaves it."""
        if self.retrained:
            return super().training(flow, ticket, ablation)
        found = ticket.content in flow.drawn_from
        # A random subnetwork is cut from the weights that pruning started from.
        weights = flow.drawn_from[ticket.content] if found else self._pruned_weights(flow)
        if self.pruning == "imp":
            weights = flow.run(self._after_cut(flow, len(self.cuts()), ticket, weights), flow.on_record).key
        return Retrain(**flow.model_inputs(), data=flow.world.data, draw=ticket, weights=weights)

    def _pruned_weights(self, flow: Flow) -> StageKey | None:
        """The fine-tuned model that is pruned; None for the pre-trained one."""
        if not self.from_finetuned:
            return None
        return flow.run(flow.retrain(None, self.finetuning, leave=self.start.leave_inputs()), unheard).key

    def _follow_out_of_distribution(self, flow: Flow, masks: StageKey, weights: StageKey | None) -> None:
        """Measure the kept masks on every OOD twin (Fig. 7), after the mask has been chosen."""
        batch_size = flow.settings.evaluation.batch_size
        stages = [
            OodCurve(
                **flow.model_inputs(),
                eval_batch_size=batch_size,
                data=flow.world.data,
                masks=masks,
                weights=weights,
                twin=twin,
            )
            for twin in flow.world.twins.values()
        ]
        for result in flow.run_all(stages):
            for record in result.history:
                flow.on_record({"stage": result.key.name, **record})

    def _cut(self, flow: Flow, weights: StageKey | None) -> StageKey:
        """Algorithm 1: cut, train for Δt, cut again. All sparsities share their first cuts."""
        first, *others = self.cuts()
        cut = Draw(
            **flow.model_inputs(),
            kind="magnitude",
            sparsity=first,
            pooler=self.pooler,
            data=flow.world.data,
            weights=weights,
        )
        drawn, epochs = flow.run(cut, flow.on_record).key, 0
        for number, sparsity in enumerate(others, start=1):
            trained = flow.run(self._after_cut(flow, number, drawn, weights), later(flow.on_record, epochs))
            cut = Draw(kind="ranking", sparsity=sparsity, ranking="matrix", search=trained.key, within=drawn)
            drawn = flow.run(cut, flow.on_record).key
            weights, epochs = trained.key, epochs + len(trained.history)
        flow.drawn_from[drawn.content] = weights
        return drawn

    def _after_cut(self, flow: Flow, cut: int, mask: StageKey, weights: StageKey | None) -> "Interval":
        return Interval(
            **flow.model_inputs(),
            method=self.interval_inputs(),
            share=list(self.interval(cut)),
            data=flow.world.data,
            within=mask,
            weights=weights,
            **flow.experts(self.debiasing),
        )


@dataclass(frozen=True, kw_only=True)
class MaskTraining(ModelStage):
    """The mask training on frozen weights."""

    name: ClassVar[str] = "srnets_masks"
    version: ClassVar[int] = 2
    cleanable: ClassVar[str | None] = LOOKS_FILE
    curve: ClassVar[tuple[str, str] | None] = ("mask training (SRNets)", "look at the select rows")
    method: dict[str, Any]
    eval_batch_size: int
    data: StageKey
    weights: StageKey | None = None
    bias: StageKey | None = None
    teacher: StageKey | None = None
    ood_train: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Train masks and keep the best."""
        from tune_tickets.methods.srnets.pruning import train_masks

        return train_masks(context)

    def work(self, sizes: Sizes) -> Work:
        """The mask training."""
        return training_work(self.method["epochs"], self.method["batch_size"], None, sizes)


@dataclass(frozen=True, kw_only=True)
class Interval(ModelStage):
    """The training between two cuts of magnitude pruning."""

    name: ClassVar[str] = "srnets_imp"
    cleanable: ClassVar[str | None] = WEIGHTS_FILE
    curve: ClassVar[tuple[str, str] | None] = ("IMP (SRNets), each interval", "epoch")
    rounds: ClassVar[bool] = True
    method: dict[str, Any]
    share: list[float]
    data: StageKey
    within: StageKey
    weights: StageKey | None = None
    bias: StageKey | None = None
    teacher: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Train what the cuts have left, for a share of the schedule."""
        from tune_tickets.methods.srnets.pruning import train_interval

        return train_interval(context)

    def work(self, sizes: Sizes) -> Work:
        """A share of the schedule."""
        epochs = self.method["epochs"] * (self.share[1] - self.share[0])
        return training_work(round(epochs, 12), self.method["batch_size"], None, sizes)


@dataclass(frozen=True, kw_only=True)
class OodCurve(ModelStage):
    """The kept masks of a mask training on the select rows of an OOD twin.

    The mask training knows no twin and has ended when this stage runs, so the result cannot influence any choice.
    """

    name: ClassVar[str] = "ood_curve"
    curve: ClassVar[tuple[str, str] | None] = ("OOD twins during mask training (SRNets)", "look")
    eval_batch_size: int
    data: StageKey
    masks: StageKey
    weights: StageKey | None = None
    twin: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Measure each mask."""
        from tune_tickets.methods.srnets.pruning import measure_looks

        return measure_looks(context)

    def work(self, sizes: Sizes) -> Work:
        """At most `MOST_LOOKS` masks on the rows of a twin."""
        rows = sum(sizes.twins.values()) / max(1, len(sizes.twins))
        return Work(f"<= {MOST_LOOKS} masks, {twins_text(sizes)}", MOST_LOOKS * rows)

    @classmethod
    def steps_done(cls, result: StageResult, rows: int | None) -> tuple[float | None, float]:
        """Rows evaluated over all masks."""
        return float(result.record["looks"] * result.record["rows"]), result.seconds
