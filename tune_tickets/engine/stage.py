"""A stage: a named piece of pure work, addressed by the digest of everything it depends on.

A kind of stage is a frozen dataclass. Its fields are what it depends on: fields that hold a `StageKey` are the stages
it reads, by role; all others are its inputs, plain JSON values. Everything else that can be asked about a kind of
stage is in its class too: name, version, what is kept, how its history is plotted, what it costs.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from tune_tickets.engine.execution import StageContext, StageOutput


def digest_of(value: Any) -> str:  # noqa: ANN401 - anything JSON can hold
    """Return the sha256 of the canonical JSON of a value."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class StageKey:
    """Where the result of an upstream stage is stored, and what identifies its content.

    For most stages the content is the digest. A stage can name its content instead: then two ways to the same result
    share all later stages.
    """

    name: str
    digest: str
    content: str
    goal_digest: str | None = None


@dataclass(frozen=True)
class StageResult:
    """What a finished stage left in the store."""

    key: StageKey
    record: dict[str, Any]
    files: dict[str, str]
    history: list[dict[str, Any]]
    seconds: float
    computed: bool = True
    """False if the result was in the store before the stage was requested."""


@dataclass(frozen=True)
class Work:
    """What one stage has to do, in words, and as a number of steps if they can be counted."""

    text: str
    steps: float | None = None


@dataclass(frozen=True)
class Stage(ABC):
    """The base of all kinds of stages.

    A field that is None is left out of the digest. So a new option with the default None keeps stored results valid.
    """

    name: ClassVar[str]
    """The folder of its results in the store, and its name in tables and logs."""
    version: ClassVar[int] = 1
    """Raised when the code changes what is computed, so that old results are not reused."""
    from_driver: ClassVar[bool] = False
    """True if the driver puts the result into the store: no worker can compute it again."""
    cleanable: ClassVar[str | None] = None
    """A pattern of result files that are large and can be computed again. All other files are kept forever."""
    curve: ClassVar[tuple[str, str] | None] = None
    """Title and unit of its loss curve in plots; None if its history is not plotted."""
    rounds: ClassVar[bool] = False
    """True if several of them run in a row, each on the result of the one before."""
    pace: ClassVar[str | None] = None
    """The kind of stage that does the same work, if its speed is better known."""

    _kinds: ClassVar[dict[str, type["Stage"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401 - as the base class takes them
        """Make a kind of stage known by its name."""
        super().__init_subclass__(**options)
        if "name" in cls.__dict__ and isinstance(cls.__dict__["name"], str):
            Stage._kinds[cls.name] = cls

    @abstractmethod
    def run(self, context: "StageContext") -> "StageOutput":
        """Compute the result. It may depend on the fields and on upstream results only.

        Import heavy libraries here, not at the top of the module: processes that only wait for stages do not need
        them.
        """

    @property
    def recomputable(self) -> bool:
        """Whether a worker can compute the result again if it is lost."""
        return not self.from_driver

    def work(self, sizes: Any) -> Work:  # noqa: ANN401 - what the work depends on, as the subclass defines it
        """Estimate what this stage has to do."""
        return Work(self.name)

    def foreseen(self) -> dict[str, Any]:
        """A record to plan with: the entries that later steps read, with made-up values."""
        return {}

    def foreseen_files(self) -> tuple[str, ...]:
        """The names of the result's files that later steps count on."""
        return ()

    @classmethod
    def steps_done(cls, result: StageResult, rows: int | None) -> tuple[float | None, float]:
        """Return how many steps a finished stage took, and how many seconds these took.

        Args:
            result: The finished stage.
            rows: The number of rows it worked on, if known.

        Returns:
            The steps, None if they are not counted, and the seconds.
        """
        return None, result.seconds

    @property
    def goal(self) -> dict[str, Any] | None:
        """How far an extensible stage must go. The goal is not part of the digest, so that goals share their work."""
        return None

    @property
    def inputs(self) -> dict[str, Any]:
        """The settings, fingerprints and seeds that the result depends on."""
        return {name: value for name, value in self._values() if not isinstance(value, StageKey)}

    @property
    def upstream(self) -> dict[str, StageKey]:
        """The results that this stage reads, by role."""
        return {name: value for name, value in self._values() if isinstance(value, StageKey)}

    @property
    def digest(self) -> str:
        """The identity of the result."""
        return self.digest_at(self.version)

    def digest_at(self, version: int) -> str:
        """Return the identity that the result has with this version of the code."""
        above = {role: key.content for role, key in self.upstream.items()}
        return digest_of({"stage": self.name, "version": version, "inputs": self.inputs, "upstream": above})

    @property
    def goal_digest(self) -> str | None:
        """The identity of the goal, for stages that have one."""
        return None if self.goal is None else digest_of(self.goal)

    def _values(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name != "to":
                yield field.name, value

    @classmethod
    def restored(
        cls, name: str, inputs: Mapping[str, Any], upstream: Mapping[str, StageKey], goal: dict[str, Any] | None
    ) -> Self:
        """Build the stage again from what the store has written about it."""
        return cls(**inputs, **upstream, **({} if goal is None else {"to": goal}))


@dataclass(frozen=True, kw_only=True)
class ExtensibleStage(Stage):
    """A stage that goes as far as its goal needs, and can be extended from its checkpoint for other goals."""

    to: dict[str, Any] | None = None
    """The goal."""

    @property
    def goal(self) -> dict[str, Any] | None:
        """How far to go."""
        return self.to


def kind_of_stage(name: str, code: str | None = None) -> type[Stage] | None:
    """Return the class of a kind of stage.

    Args:
        name: the name of the kind.
        code: where its class is, as 'package.module:Class', if that was written down.

    Returns:
        The class, or None if it is unknown here: its module was not imported, or it belongs to a method from outside
        that is not installed.
    """
    if code is not None:
        module, _, found = code.partition(":")
        try:
            kind = getattr(import_module(module), found, None)
        except ImportError:
            kind = None
        if isinstance(kind, type) and issubclass(kind, Stage):
            return kind
    return Stage._kinds.get(name)


def code_of(stage: Stage) -> str:
    """Return where the class of a stage is, as 'package.module:Class'."""
    return f"{type(stage).__module__}:{type(stage).__qualname__}"
