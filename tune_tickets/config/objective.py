"""`objective:`: what makes one ticket better than another. Metrics have their names of the summary, in percent."""

from typing import Literal

from pydantic import Field, model_validator

from tune_tickets.config.section import Section

Metrics = tuple[str, ...]
_CLEAN_AND_ATTACKED: Metrics = ("clean", "aua")


def _check_percent(bound: float) -> None:
    """Reject a share where a percentage is expected: the bound would silently have no effect."""
    if 0.0 < bound < 1.0:
        raise ValueError(f"metrics are percentages: {bound:g} looks like a share; write {100.0 * bound:g}")


class Constraint(Section):
    """A condition that a ticket must meet to win, such as {metric: clean, at_least: -1, relative_to: dense}."""

    metric: str = Field(min_length=1, description="A metric, such as clean, aua/textfooler, sparsity or flops")
    at_least: float | None = Field(None, description="Smallest value allowed, in % or points")
    at_most: float | None = Field(None, description="Largest value allowed, in % or points")
    relative_to: Literal["dense"] | None = Field(
        None, description="dense: the bound is relative to the dense control; -1 means one point less"
    )

    @model_validator(mode="after")
    def _check_relation(self) -> "Constraint":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("a constraint has one bound: set either at_least or at_most")
        lowest = 0.0 if self.relative_to is None else -100.0
        if not lowest <= self._bound <= 100.0:
            raise ValueError(f"metrics are percentages, so either every ticket meets {self.text} or none does")
        if self.relative_to is None:
            _check_percent(self._bound)
        return self

    @property
    def _bound(self) -> float:
        return self.at_least if self.at_least is not None else self.at_most or 0.0

    @property
    def text(self) -> str:
        """The condition as text, such as 'clean >= dense - 1'."""
        relation, bound = ">=" if self.at_least is not None else "<=", self._bound
        if self.relative_to is None:
            return f"{self.metric} {relation} {bound:g}"
        return f"{self.metric} {relation} dense {'-' if bound < 0 else '+'} {abs(bound):g}"


class Objective(Section):
    """One value or a vector of metrics, with a floor that excludes degenerate winners."""

    kind: Literal["weighted", "harmonic", "constrained", "pareto"] = Field(
        "weighted",
        description="Weighted mean, harmonic mean, one metric subject to constraints, or the vector of metrics",
    )
    clean_weight: float = Field(0.5, ge=0.0, le=1.0, description="Weight of clean accuracy in the weighted mean")
    attack_weight: float = Field(0.5, ge=0.0, le=1.0, description="Weight of aua, the accuracy under attack")
    weights: dict[str, float] = Field(
        default_factory=dict,
        description="Weights by metric, instead of clean_weight and attack_weight",
    )
    metrics: Metrics = Field(
        _CLEAN_AND_ATTACKED, min_length=2, description="The metrics of the harmonic mean or the Pareto vector"
    )
    maximise: str = Field("aua", min_length=1, description="The metric of the constrained objective")
    constraints: tuple[Constraint, ...] = Field(
        (), description="Further conditions that a ticket must meet to win, for every kind"
    )
    floor_points: float | None = Field(
        2.0, ge=0.0, le=100.0, description="Points of clean accuracy a ticket may lose to the dense control; null: any"
    )
    floor_clean: float | None = Field(
        None, ge=0.0, le=100.0, description="Clean accuracy in % that a ticket must reach, independent of the control"
    )
    near_constant: float = Field(
        0.95, gt=0.0, le=1.0, description="A model that gives one label to at least this share of rows cannot win"
    )

    @property
    def weighting(self) -> dict[str, float]:
        """The weights of the weighted mean by metric; those of 0 are left out."""
        pair = dict(zip(_CLEAN_AND_ATTACKED, (self.clean_weight, self.attack_weight), strict=True))
        return {name: weight for name, weight in (self.weights or pair).items() if weight > 0}

    @property
    def valued(self) -> Metrics:
        """The metrics that its value or values are computed from."""
        if self.kind == "weighted":
            return tuple(self.weighting)
        return (self.maximise,) if self.kind == "constrained" else self.metrics

    @property
    def terms(self) -> Metrics:
        """All metrics that it reads, including those of constraints."""
        return (*self.valued, *(constraint.metric for constraint in self.constraints))

    @model_validator(mode="after")
    def _check_weights(self) -> "Objective":
        if any(weight < 0 for weight in self.weights.values()):
            raise ValueError("weights must not be negative: a bound on a metric is a constraint")
        if self.weights and (self.clean_weight, self.attack_weight) != (0.5, 0.5):
            raise ValueError("weights replaces clean_weight and attack_weight: remove those")
        if self.kind == "weighted" and not self.weighting:
            which = "weights are all" if self.weights else "clean_weight and attack_weight are both"
            raise ValueError(f"{which} 0: nothing would be compared")
        if len(set(self.metrics)) < len(self.metrics):
            raise ValueError("metrics names a metric twice")
        return self

    @model_validator(mode="after")
    def _check_kind(self) -> "Objective":
        """Reject keys that this kind does not read: they would have no effect."""
        unread = {
            "weights": bool(self.weights) and self.kind != "weighted",
            "metrics": self.metrics != _CLEAN_AND_ATTACKED and self.kind not in ("harmonic", "pareto"),
            "maximise": self.maximise != "aua" and self.kind != "constrained",
        }
        for name, wrong in unread.items():
            if wrong:
                raise ValueError(f"{name} has no effect under the kind {self.kind}")
        if self.floor_clean is not None:
            _check_percent(self.floor_clean)
        if self.kind == "constrained" and not self.constraints:
            raise ValueError("a constrained objective needs constraints, such as {metric: sparsity, at_least: 30}")
        return self
