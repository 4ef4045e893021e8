"""Stages for tests: of a real kind if its fields fit, otherwise of the same name with any inputs."""

from dataclasses import dataclass, field
from typing import Any

from tune_tickets.config.method import built_in_methods
from tune_tickets.engine import stage as engine
from tune_tickets.engine.stage import StageKey

built_in_methods()


@dataclass(frozen=True)
class Loose(engine.Stage):
    """A stage that takes any inputs and cannot be computed."""

    called: str
    values: dict[str, Any] = field(default_factory=dict)
    above: dict[str, StageKey] = field(default_factory=dict)
    to: dict[str, Any] | None = None

    @property
    def name(self):
        return self.called

    @property
    def version(self):
        kind = engine.kind_of_stage(self.called)
        return kind.version if kind is not None else 1

    @property
    def recomputable(self):
        kind = engine.kind_of_stage(self.called)
        return kind is None or not kind.from_driver

    @property
    def inputs(self):
        return dict(self.values)

    @property
    def upstream(self):
        return dict(self.above)

    @property
    def goal(self):
        return self.to

    @classmethod
    def restored(cls, name, inputs, upstream, goal):
        return cls(name, dict(inputs), dict(upstream), goal)

    def run(self, context):
        raise AssertionError("a stage of a test is not computed")


def Stage(name, inputs, upstream=None, goal=None):
    """A stage of this name."""
    kind = engine.kind_of_stage(name)
    try:
        assert kind is not None
        return kind.restored(name, inputs, upstream or {}, goal)
    except (TypeError, AssertionError):
        return Loose(name, dict(inputs), dict(upstream or {}), goal)
