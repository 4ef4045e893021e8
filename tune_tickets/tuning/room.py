"""Whether a cluster has room for a stage: on the nodes it has, or on those its autoscaler may add."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tune_tickets.config.resources import Resources
from tune_tickets.errors import ResourceError


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one kind that may still come."""

    resources: Mapping[str, float]
    count: int


@dataclass(frozen=True)
class Room:
    """Total and free resources of the nodes that are up; `addable` is None where the autoscaler cannot be seen."""

    nodes: tuple[Mapping[str, float], ...]
    free: tuple[Mapping[str, float], ...]
    addable: tuple[NodeGroup, ...] | None

    def describe(self, resources: Resources) -> str:
        """What a stage needs, what is free, and what may come: what a search with waiting stages waits for."""
        needs = "; ".join(self._need(name, asked) for name, asked in asked_of(resources).items())
        slots = sum(_slots(node, resources) for node in self.free)
        count = f"{len(self.nodes)} node" + "s" * (len(self.nodes) != 1)
        return f"Cluster of {count}, free for {slots} stage{'s' * (slots != 1)} now. A stage {needs}"

    def check(self, resources: Resources) -> None:
        """A stage that fits on no node, present or to come, would wait for ever."""
        if self.addable is None or any(_slots(node, resources) for node in self.nodes):
            return
        if any(group.count > 0 and _slots(group.resources, resources) for group in self.addable):
            return
        kinds = [group.resources for group in self.addable if group.count > 0]
        asked = asked_of(resources)
        may_come = f"the autoscaler may add nodes of {_or(kinds, asked)}" if kinds else "no autoscaler adds any"
        raise ResourceError(
            f"a stage asks for {_amounts(asked)} on one node; the cluster has nodes of {_or(list(self.nodes), asked)}, "
            f"and {may_come}. Lower resources.cpus or resources.gpus, or give the cluster larger nodes"
        )

    def _need(self, name: str, asked: float) -> str:
        free = sum(node.get(name, 0.0) for node in self.free)
        if self.addable is None:
            more = "what an autoscaler may add is not known here"
        else:
            coming = sum(group.resources.get(name, 0.0) * group.count for group in self.addable)
            more = f"autoscaler may add {coming:g}" if coming else "no autoscaler adds any"
        return f"needs {asked:g} {name}, {free:g} free, {more}"


def asked_of(resources: Resources) -> dict[str, float]:
    """What one stage asks of its node."""
    return {name: value for name, value in (("CPU", resources.cpus), ("GPU", resources.gpus)) if value > 0}


def addable(config: Mapping[str, Any], nodes: int) -> tuple[NodeGroup, ...]:
    """The workers an autoscaler's configuration allows; `nodes` are up already, one of them the head.

    Which of them are of which kind Ray does not tell, so only the bound on all workers counts them.
    """
    kinds = config.get("available_node_types") or {}
    left = int(config.get("max_workers", 2)) - (nodes - 1)
    return tuple(
        NodeGroup(kind["resources"], max(0, min(int(kind.get("max_workers", config.get("max_workers", 2))), left)))
        for name, kind in kinds.items()
        if name != config.get("head_node_type")
    )


def _slots(node: Mapping[str, float], resources: Resources) -> int:
    """How many stages fit on a node; a rounding error of Ray's fractions costs none."""
    return min(math.floor(node.get(name, 0.0) / asked + 1e-4) for name, asked in asked_of(resources).items())


def _amounts(resources: Mapping[str, float]) -> str:
    return " and ".join(f"{value:g} {name}" for name, value in resources.items())


def _or(nodes: list[Mapping[str, float]], names: Mapping[str, float]) -> str:
    return " or ".join(sorted({_amounts({name: node.get(name, 0.0) for name in names}) for node in nodes}))
