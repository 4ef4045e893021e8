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
    """A complete trial or a control, with its metrics."""

    name: str
    """'t003', 'dense', 'random-0'."""
    kind: Literal["trial", "dense", "random"]
    title: str
    """Its name in tables: 'earlyrobust', 'PGD'."""
    metrics: Mapping[str, float]
    """As in the summary, with `low/` and `high/` ends of 95% intervals."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """The searched settings."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings of the trial under dotted keys, such as `method.gamma`."""
    seed: int = 0
    """Of the search."""
    feasible: bool = True
    """Whether it may win."""
    tasks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Its metrics on the further tasks of `transfer:`, by task."""
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
    """The metric history of one stage. Trials that share the stage share the curve."""

    stage: str
    """The name of the stage, or `FINETUNING`."""
    models: tuple[str, ...]
    """The models that use the stage: 't003', 'dense'."""
    title: str
    settings: Mapping[str, Any]
    """The settings of the first of these models, under dotted keys."""
    records: tuple[Mapping[str, float], ...]
    own: bool = True
    """False if it comes from another results folder: the same experiment with another seed."""


@dataclass(frozen=True)
class Epochs:
    """The winner or the dense control under real attacks after every epoch of its training."""

    model: str
    title: str
    metrics: tuple[Mapping[str, float], ...]
    """After epoch 1, 2, ..., as in the summary; empty if it has no epochs."""
    left_out: str | None = None
    """Why there are none."""


@dataclass(frozen=True)
class MaskDistances:
    """Distances between the masks of all mini-epochs of a search, 0 to 1, and where the search stopped."""

    model: str
    title: str
    heads: Matrix
    neurons: Matrix
    stop: int
    """The mini-epoch, from 1, whose scores gave the ticket."""
    converged: bool
    """Whether γ and patience ended the search, or else the end of its schedule."""
    mini_epoch: float
    """Share of an epoch."""
    gamma: float


@dataclass(frozen=True)
class Pattern:
    """What survives in each layer, in %, as a mean over tickets that differ only in their seed."""

    name: str
    title: str
    tickets: int
    heads: Matrix
    """[layer][head]: share of tickets that keep the head, or share of its weights that are kept."""
    mlp: tuple[float, ...]
    """[layer]: share of neurons kept, or of the weights of both MLP matrices."""
    structured: bool


@dataclass(frozen=True)
class Example:
    """One attacked text."""

    model: str
    threat: str
    row: int
    successful: bool
    before: str
    """The label before the attack."""
    after: str
    pieces: tuple[tuple[str, str], ...]
    """(old, new) parts of the text; equal if unchanged."""


@dataclass(frozen=True)
class Axis:
    """A searched setting, as an axis of the parallel coordinates."""

    name: str
    log: bool = False
    choices: tuple[Any, ...] | None = None
    """The values in order, if it is a choice."""


@dataclass(frozen=True)
class Evidence:
    """Everything that was read. `missing` says why something could not be read."""

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
    """The reason by field."""


class NothingToDraw(Exception):
    """A picture is left out; the message says why."""
