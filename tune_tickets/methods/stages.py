"""The kinds of stages that all methods share, with everything that can be asked about them. Code: `methods.bodies`.

This module does not import torch or transformers, because trials import it and only wait for stages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tune_tickets.config import Settings
from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.task import Model
from tune_tickets.config.training import Adversary, Retraining
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.stage import Stage, StageKey, StageResult, Work
from tune_tickets.engine.store import Store

if TYPE_CHECKING:
    from tune_tickets.tickets.unstructured import Mask

TICKET_FILE = "ticket.safetensors"
WEIGHTS_FILE = "weights.safetensors"
MASK_FILE = "mask.safetensors"
SCORES_FILE = "scores.safetensors"
TRAJECTORY_FILE = "trajectory.safetensors"
ATTACKED_FILE = "attacked.parquet"
SUBSTITUTES_FILE = "substitutes.json"


@dataclass(frozen=True)
class Sizes:
    """The numbers of rows that the cost of a stage depends on; None if the data could not be read."""

    train: int | None
    select: int
    twins: Mapping[str, int]


def epoch_file(epoch: int) -> str:
    """The name of the ticket file after an epoch of its training, counted from 1."""
    return f"ticket-{epoch:03}.safetensors"


def steps_of(epochs: float, batch_size: int, rows: int) -> int:
    """The number of optimizer steps of a training."""
    return math.ceil(epochs * math.ceil(rows / batch_size))


def training_work(
    epochs: float, batch_size: int, adversary: Adversary | None, sizes: Sizes, at_most: bool = False
) -> Work:
    """The work of a training on the rows of the task."""
    passes, prefix = 1 if adversary is None else adversary.passes, "<= " if at_most else ""
    if sizes.train is None:
        return Work(f"{prefix}{epochs * passes:g} passes over all training rows")
    steps = steps_of(epochs, batch_size, sizes.train)
    return Work(f"{prefix}{round(steps * passes)} passes of {batch_size} rows", epochs * passes * sizes.train)


def twins_text(sizes: Sizes) -> str:
    """The OOD twins with their numbers of rows."""
    return ", ".join(f"{name} {rows} rows" for name, rows in sizes.twins.items())


@dataclass(frozen=True, kw_only=True)
class FromDriver(Stage):
    """Data that the driver puts into the store before the first trial, identified by its content."""

    from_driver: ClassVar[bool] = True

    def run(self, context: StageContext) -> StageOutput:
        """Workers never compute it."""
        raise AssertionError(f"stage '{self.name}' is put into the store by the driver")


@dataclass(frozen=True, kw_only=True)
class Rows(FromDriver):
    """The training and select rows of a task."""

    name: ClassVar[str] = "data"
    fingerprint: str
    columns: list[str]
    attacked: str


@dataclass(frozen=True, kw_only=True)
class Twin(FromDriver):
    """The select rows of an out-of-distribution twin, with the rules for answers on it."""

    name: ClassVar[str] = "twin"
    twin: str
    fingerprint: str
    answers: list[int | None]
    metric: str
    restrict: bool

    @property
    def inputs(self) -> dict[str, Any]:
        """The fields, with the name of the twin under `name`."""
        values = super().inputs
        return {"name": values.pop("twin"), **values}

    @classmethod
    def restored(cls, name: str, inputs: Any, upstream: Any, goal: Any) -> "Twin":  # noqa: ANN401 - as in the base
        """Build it again from its stored description."""
        return cls(**{"twin" if key == "name" else key: value for key, value in inputs.items()})


@dataclass(frozen=True, kw_only=True)
class OodTrain(FromDriver):
    """The rows of twins that a method may train on."""

    name: ClassVar[str] = "ood_train"
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Corpus(FromDriver):
    """Plain texts for a masked language model."""

    name: ClassVar[str] = "corpus"
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Vectors(FromDriver):
    """Word vectors of the words of a task."""

    name: ClassVar[str] = "vectors"
    fingerprint: str


class TrainingStage(Stage):
    """A stage that trains. Its record holds passes over the training rows and seconds under `training`."""

    @classmethod
    def steps_done(cls, result: StageResult, rows: int | None) -> tuple[float | None, float]:
        """Rows passed forward and backward."""
        training = result.record.get("training")
        if training is None or rows is None:
            return None, result.seconds
        return training["passes"] * rows, training["seconds"]


@dataclass(frozen=True, kw_only=True)
class ModelStage(TrainingStage):
    """A stage that starts from the pre-trained model."""

    seed: int
    model: dict[str, Any]
    model_fingerprint: str
    max_length: int

    @property
    def backbone(self) -> Model:
        """The model as its section of the configuration."""
        return Model.of_stage(self.model)


@dataclass(frozen=True, kw_only=True)
class Draw(Stage):
    """The mask of a ticket, identified by its bits. `kind` says how it is drawn."""

    name: ClassVar[str] = "draw"
    version: ClassVar[int] = 2
    kind: str
    anatomy: dict[str, int] | None = None
    ticket_seed: int | None = None
    drawing: dict[str, Any] | None = None
    stop: int | None = None
    sparsity: float | None = None
    ranking: str | None = None
    mask: str | None = None
    pooler: bool | None = None
    seed: int | None = None
    model: dict[str, Any] | None = None
    model_fingerprint: str | None = None
    max_length: int | None = None
    data: StageKey | None = None
    search: StageKey | None = None
    within: StageKey | None = None
    like: StageKey | None = None
    weights: StageKey | None = None

    @property
    def recomputable(self) -> bool:
        """A mask from a ticket file is put into the store by the driver."""
        return self.kind != "given"

    def run(self, context: StageContext) -> StageOutput:
        """Draw the mask."""
        from tune_tickets.methods.bodies.draw import run

        return run(context)

    @classmethod
    def mask_of(cls, store: Store, result: StageResult) -> "Mask":
        """Read the mask of a finished result."""
        from tune_tickets.tickets.mask import StructuredMask
        from tune_tickets.tickets.unstructured import UnstructuredMask

        kind: type[Mask] = StructuredMask if result.record["structured"] else UnstructuredMask
        return kind.from_bytes(store.read(result, MASK_FILE))

    def work(self, sizes: Sizes) -> Work:
        """Ranking of scores."""
        return Work("ranking")


@dataclass(frozen=True, kw_only=True)
class Retrain(ModelStage):
    """The ticket from the pre-trained weights, trained on its own; not trained if there is no `retraining`."""

    name: ClassVar[str] = "retrain"
    version: ClassVar[int] = 2
    cleanable: ClassVar[str | None] = TICKET_FILE
    curve: ClassVar[tuple[str, str] | None] = ("retraining", "epoch")
    retraining: dict[str, Any] | None = None
    probe: dict[str, Any] | None = None
    eval_batch_size: int | None = None
    ablation: dict[str, Any] | None = None
    start: dict[str, Any] | None = None
    data: StageKey
    draw: StageKey | None = None
    weights: StageKey | None = None
    bias: StageKey | None = None
    teacher: StageKey | None = None
    substitutes: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Train the ticket and keep it."""
        from tune_tickets.methods.bodies.retrain import trained

        return trained(context, every_epoch=False)

    def work(self, sizes: Sizes) -> Work:
        """The passes of the training."""
        if self.retraining is None:
            return Work("the ticket without training", 0.0)
        training = Retraining.model_validate(self.retraining)
        return training_work(training.epochs, training.batch_size, training.adversary, sizes)

    def foreseen(self) -> dict[str, Any]:
        """Nothing is cut."""
        shares = {"heads": 0.0, "neurons": 0.0, "weights": 0.0}
        return {"sparsity": {**shares, "parameters": 1, "parameters_total": 1, "parameters_dense": 1}}

    def foreseen_files(self) -> tuple[str, ...]:
        """The ticket."""
        return (TICKET_FILE,)


@dataclass(frozen=True, kw_only=True)
class Epochs(Retrain):
    """The same retraining again, which keeps the ticket after each epoch."""

    name: ClassVar[str] = "epochs"
    version: ClassVar[int] = 1
    cleanable: ClassVar[str | None] = "ticket-*.safetensors"
    curve: ClassVar[tuple[str, str] | None] = None
    pace: ClassVar[str | None] = "retrain"

    @classmethod
    def of(cls, trained: Retrain) -> "Epochs":
        """The stage that repeats a retraining."""
        return cls.restored(cls.name, trained.inputs, trained.upstream, None)

    def foreseen_files(self) -> tuple[str, ...]:
        """A ticket per epoch."""
        epochs = 0 if self.retraining is None else Retraining.model_validate(self.retraining).epochs
        return tuple(epoch_file(epoch) for epoch in range(1, epochs + 1))

    def run(self, context: StageContext) -> StageOutput:
        """Train again and keep every epoch. The inputs are the same, so the last epoch is the trained ticket."""
        from tune_tickets.methods.bodies.retrain import trained

        return trained(context, every_epoch=True)


@dataclass(frozen=True, kw_only=True)
class Bias(Stage):
    """The bias model: how well its features predict the label of every training row."""

    name: ClassVar[str] = "bias"
    bias: dict[str, Any]
    seed: int | None = None
    model: dict[str, Any] | None = None
    model_fingerprint: str | None = None
    data: StageKey
    vectors: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Fit it."""
        from tune_tickets.methods.bodies.experts import fit_bias

        return fit_bias(context)

    def work(self, sizes: Sizes) -> Work:
        """A small model."""
        return Work("logistic regression")


@dataclass(frozen=True, kw_only=True)
class Substitutes(Stage):
    """The substitutes of every word of the training rows. All trainings that rewrite texts share them."""

    name: ClassVar[str] = "substitutes"
    source: dict[str, Any]
    data: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Look up all words."""
        from tune_tickets.methods.bodies.substitutes import run

        return run(context)

    def work(self, sizes: Sizes) -> Work:
        """One look per word."""
        return Work("substitutes of the words of the training rows")


@dataclass(frozen=True, kw_only=True)
class Teacher(Stage):
    """What a fine-tuned model predicts for the rows it was trained on."""

    name: ClassVar[str] = "teacher"
    eval_batch_size: int
    data: StageKey
    retrain: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Predict every training row once."""
        from tune_tickets.methods.bodies.experts import predict_as_teacher

        return predict_as_teacher(context)

    def work(self, sizes: Sizes) -> Work:
        """One pass forward."""
        return Work("predictions on the training rows")


@dataclass(frozen=True, kw_only=True)
class Evaluate(Stage):
    """Clean accuracy of a trained ticket."""

    name: ClassVar[str] = "evaluate"
    version: ClassVar[int] = 4
    eval_batch_size: int
    rows: int
    seed: int
    epoch: int | None = None
    data: StageKey
    retrain: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Predict every select row once."""
        from tune_tickets.methods.bodies.evaluate import evaluate

        return evaluate(context)

    def work(self, sizes: Sizes) -> Work:
        """All select rows."""
        return Work(f"{sizes.select} rows", sizes.select)

    def foreseen(self) -> dict[str, Any]:
        """Every row right."""
        clean = {"rows": 1, "accuracy": 100.0, "interval": [0.0, 100.0], "majority_share": 50.0, "sample": ""}
        return {"clean": clean, "flops": 1.0, "attackable": [True] * self.rows, "attacked_sample": ""}

    @classmethod
    def steps_done(cls, result: StageResult, rows: int | None) -> tuple[float | None, float]:
        """Rows evaluated."""
        return float(result.record["clean"]["rows"]), result.seconds


@dataclass(frozen=True, kw_only=True)
class Ood(Stage):
    """A trained ticket on the select rows of an out-of-distribution twin."""

    name: ClassVar[str] = "ood"
    eval_batch_size: int
    twin: StageKey
    retrain: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Predict every row of the twin once."""
        from tune_tickets.methods.bodies.evaluate import measure_twin

        return measure_twin(context)

    def work(self, sizes: Sizes) -> Work:
        """The rows of the twins."""
        return Work(twins_text(sizes))

    def foreseen(self) -> dict[str, Any]:
        """A twin without groups."""
        measured = {"value": 50.0, "interval": [0.0, 100.0], "rows": 1, "groups": {}, "right": [True]}
        return {"ood": {"name": "twin", "metric": "accuracy", **measured}}


@dataclass(frozen=True, kw_only=True)
class FittedMaskedLM(Stage):
    """A masked language model on the backbone, fitted on plain text unless the checkpoint has a head."""

    name: ClassVar[str] = "masked_lm"
    cleanable: ClassVar[str | None] = "masked_lm/*"
    seed: int
    model: dict[str, Any]
    model_fingerprint: str
    masked_lm: dict[str, Any]
    corpus: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Fit and measure it."""
        from tune_tickets.methods.bodies.masked_lm import run

        return run(context)

    def work(self, sizes: Sizes) -> Work:
        """Its epochs."""
        epochs = self.masked_lm["epochs"]
        return Work(f"{epochs:g} passes over all texts, if the checkpoint has no masked-LM head")

    def foreseen(self) -> dict[str, Any]:
        """A fitted model."""
        return {"fitted": True, "texts": 1, "top1": 0.0, "top10": 0.0}


def masked_lm_model(settings: Settings) -> Model:
    """The backbone of the masked language model of attacks: that of the experiment, possibly with fewer layers."""
    layers = settings.evaluation.masked_lm.layers
    return settings.model if layers is None else settings.model.model_copy(update={"layers": layers})


def masked_lm_stage(
    seed: int, model: Model, model_fingerprint: str, fitting: Fitting, corpus: StageKey
) -> FittedMaskedLM:
    """The fitting of a masked language model. Its digest identifies the source of the words of an attack."""
    return FittedMaskedLM(
        seed=seed,
        model=model.stage_inputs(None),
        model_fingerprint=model_fingerprint,
        masked_lm=fitting.fitting_inputs(),
        corpus=corpus,
    )


@dataclass(frozen=True, kw_only=True)
class Attack(Stage):
    """One threat model against a trained ticket, on a shard of the seeded sample of rows."""

    name: ClassVar[str] = "attack"
    version: ClassVar[int] = 3
    seed: int
    threat: dict[str, Any]
    rules: int
    rows: int
    eval_batch_size: int
    shard: list[int] = field(default_factory=list)
    only: list[int] | None = None
    """The places in the sample of the rows to attack; None for all rows of the shard."""
    epoch: int | None = None
    data: StageKey
    retrain: StageKey
    masked_lm: StageKey | None = None

    def run(self, context: StageContext) -> StageOutput:
        """Attack the rows of the shard."""
        from tune_tickets.methods.bodies.attack import run

        return run(context)

    def work(self, sizes: Sizes) -> Work:
        """The rows of the shard."""
        rows = len(self.places)
        return Work(f"<= {rows} rows attacked", rows)

    @property
    def places(self) -> list[int]:
        """The places in the sample of the rows that it attacks."""
        return list(range(*self.shard)) if self.only is None else self.only

    def foreseen(self) -> dict[str, Any]:
        """Every row withstands."""
        row = {"status": "failed", "queries": 0, "words_changed": 0.0, "similarity": None}
        rows = [{"index": index, **row} for index in self.places]
        return {"rows": rows, "candidates": 0, "rejected": {}}

    @classmethod
    def steps_done(cls, result: StageResult, rows: int | None) -> tuple[float | None, float]:
        """Rows attacked."""
        return float(len(result.record["rows"])), result.seconds
