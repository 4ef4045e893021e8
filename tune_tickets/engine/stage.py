"""A stage: a named piece of pure work, addressed by the digest of everything it depends on."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

VERSIONS = {
    "data": 1,
    "twin": 1,
    "ood_train": 1,
    "corpus": 1,
    "vectors": 1,
    "bias": 1,
    "teacher": 1,
    "search": 2,
    "mlm_search": 1,
    "masks": 2,
    "imp": 1,
    "srnets_masks": 2,
    "srnets_imp": 1,
    "draw": 2,
    "retrain": 2,
    "epochs": 1,
    "evaluate": 4,
    "ood": 1,
    "ood_curve": 1,
    "masked_lm": 1,
    "attack": 3,
}
"""Raised when the code of a stage changes what it computes, so that old results are not reused."""


def digest_of(value: Any) -> str:  # noqa: ANN401 - anything JSON can hold
    """sha256 of the canonical JSON of a value."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class Stage:
    """What is to be computed.

    `inputs` is the slice of the configuration, the fingerprints and the seed; the code of the stage sees no other
    setting, so the digest cannot miss one. `upstream` names the stages read. `goal` says how far an extensible stage
    must go. It is no part of the digest: stages with one digest share their work.
    """

    name: str
    inputs: dict[str, Any]
    upstream: dict[str, "StageKey"] = field(default_factory=dict)
    goal: dict[str, Any] | None = None

    @property
    def digest(self) -> str:
        """The identity of the result."""
        return self.digest_at(VERSIONS[self.name])

    def digest_at(self, version: int) -> str:
        """The identity that the result has with this version of the stage's code."""
        above = {role: key.content for role, key in self.upstream.items()}
        return digest_of({"stage": self.name, "version": version, "inputs": self.inputs, "upstream": above})

    @property
    def goal_digest(self) -> str | None:
        """The identity of the goal, for stages that have one."""
        return None if self.goal is None else digest_of(self.goal)


@dataclass(frozen=True)
class StageKey:
    """Where the result of an upstream stage lies, and what identifies its content.

    For most stages the content is the digest. A drawn mask is identified by its bits, so that two ways of drawing the
    same ticket share all that follows.
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
    """False if the result was there before it was asked for."""
