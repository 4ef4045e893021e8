"""`task:` the labelled texts, their columns and how they are split."""

from pydantic import Field, model_validator

from tune_tickets.config.ood import REVERSED, Twin
from tune_tickets.config.planted import Planted
from tune_tickets.config.section import Section


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
