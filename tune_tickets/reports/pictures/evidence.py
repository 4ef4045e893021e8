"""What the pictures are drawn from: plain records, read from a results folder by `reports.gallery`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tune_tickets.config.method import built_in_methods
from tune_tickets.engine.stage import Stage, kind_of_stage
from tune_tickets.results.records import Confirmation

Matrix = tuple[tuple[float, ...], ...]
FINETUNING = "finetuning"
"""Stands for the stage of a curve if it trained the model that was pruned, and not the ticket."""


def stage_kind(name: str) -> type[Stage] | None:
    """The class of a stage in a summary; None if it belongs to a method that is not installed here."""
    built_in_methods()  # imports their stages
    return kind_of_stage(name)


def curve_of(name: str) -> tuple[str, str] | None:
    """Title and unit of the loss curve of a stage; None if its history is not plotted."""
    kind = stage_kind(name)
    return None if kind is None else kind.curve


@dataclass(frozen=True)
class Measured:
    """A model with its figures: a trial that was measured to its end, or a control."""

    name: str
    """'t003', 'dense', 'random-0'."""
    kind: Literal["trial", "dense", "random"]
    title: str
    """What tables call it: 'earlyrobust', 'PGD'."""
    metrics: Mapping[str, float]
    """As in the summary, with `low/` and `high/` ends of 95% intervals."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """What was searched."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings of the trial under dotted keys, such as `method.gamma`."""
    seed: int = 0
    """Of the search."""
    feasible: bool = True
    """Whether it may win."""
    tasks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Its figures on the further tasks of `transfer:`, by their names."""
    own: bool = True
    """False if it comes from another results folder: the same experiment with another seed."""

    @property
    def random(self) -> bool:
        """A random ticket, whether a control or the baseline among the trials."""
        return self.kind == "random" or self.settings.get("method.kind") == "random"

    @property
    def whole(self) -> bool:
        """A whole model: the dense control, or a baseline such as PGD training among the trials."""
        return self.kind == "dense" or self.settings.get("method.kind") == "finetune"


@dataclass(frozen=True)
class Curve:
    """The records that one stage left, point by point; trials that share the stage share the curve."""

    stage: str
    """The name of the stage, or `FINETUNING`."""
    models: tuple[str, ...]
    """Whose stage it is: 't003', 'dense'."""
    title: str
    settings: Mapping[str, Any]
    """Of the first of these models, under dotted keys."""
    records: tuple[Mapping[str, float], ...]
    own: bool = True
    """False if it comes from another results folder: the same experiment with another seed."""


@dataclass(frozen=True)
class Epochs:
    """The winner or the dense control under real attacks after every epoch of its training."""

    model: str
    title: str
    metrics: tuple[Mapping[str, float], ...]
    """Of epoch 1, 2, ..., as in the summary; none if it has no epochs of its own."""
    left_out: str | None = None
    """Why there are none."""


@dataclass(frozen=True)
class MaskDistances:
    """How far the masks of all mini-epochs of a search are from each other, 0 to 1, and where it was left."""

    model: str
    title: str
    heads: Matrix
    neurons: Matrix
    stop: int
    """The mini-epoch, from 1, whose scores gave the ticket."""
    converged: bool
    """Whether the rule of γ and patience ended the search, or its schedule."""
    mini_epoch: float
    """Share of an epoch."""
    gamma: float


@dataclass(frozen=True)
class Pattern:
    """What survives where, in %, as a mean over tickets that differ in their seed alone."""

    name: str
    title: str
    tickets: int
    heads: Matrix
    """[layer][head]: in how many of the tickets a head is kept; of single weights, how many are."""
    mlp: tuple[float, ...]
    """[layer]: intermediate neurons kept, or single weights of the two matrices of the MLP."""
    structured: bool


@dataclass(frozen=True)
class Example:
    """One attacked text."""

    model: str
    threat: str
    row: int
    successful: bool
    before: str
    """The label that the model gave at first."""
    after: str
    pieces: tuple[tuple[str, str], ...]
    """(old, new) stretches of the text; unchanged where both are equal."""


@dataclass(frozen=True)
class Axis:
    """A searched setting as an axis of the parallel coordinates."""

    name: str
    log: bool = False
    choices: tuple[Any, ...] | None = None
    """The values in their order, if it is a choice."""


@dataclass(frozen=True)
class Evidence:
    """All that was read; what is missing was not there, and `missing` says why."""

    measured: tuple[Measured, ...]
    selected: str | None = None
    """The trial that won."""
    confirmation: Confirmation | None = None
    curves: tuple[Curve, ...] = ()
    epochs: tuple[Epochs, ...] = ()
    distances: tuple[MaskDistances, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    examples: tuple[Example, ...] = ()
    axes: tuple[Axis, ...] = ()
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of the variance of each value of the objective that each setting explains, 0 to 1."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why something could not be gathered, by the field above."""


class NothingToDraw(Exception):
    """A picture is left out; the message says why."""
