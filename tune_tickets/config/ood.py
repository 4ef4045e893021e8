"""`task.ood:` the out-of-distribution twins of a task, on which its bias no longer helps."""

from typing import Any, Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import Section

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
