"""The params of a trial's run: those searched and those that methods are compared by, as numbers where they are some.

MLflow's parallel coordinates have one axis per param, and an axis needs a value in every run and numbers to be a scale.
"""

import re
from collections.abc import Mapping
from typing import Any

from tune_tickets.tracking.naming import flatten

ALWAYS = (
    "method.kind",
    "method.penalty",  # λ
    "method.penalty_heads",  # λ_H
    "method.penalty_neurons",  # λ_N
    "method.gamma",  # γ
    "method.sparsity",
    "method.drawing.heads",  # ratios
    "method.drawing.neurons",
    "method.adversary.kind",
    "method.adversary.steps",
    "method.adversary.step_size",
    "method.adversary.magnitude",  # ε
    "method.debiasing.loss",
    "retraining.learning_rate",
    "retraining.epochs",
    "retraining.adversary.kind",
    "retraining.adversary.steps",
    "retraining.adversary.step_size",
    "retraining.adversary.magnitude",
    "retraining.debiasing.loss",
    "retraining.regulariser.kind",
)
_FRACTION = re.compile(r"(\d+)\s*/\s*(\d+)")


def coordinates(settings: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The searched `params`, and beside them the fixed settings of `ALWAYS` that this experiment has."""
    flat = flatten(settings)
    fixed = {name: flat[name] for name in ALWAYS if isinstance(flat.get(name), str | int | float)}
    return {name: number(value) for name, value in (fixed | dict(params)).items()}


def number(value: Any) -> Any:  # noqa: ANN401 - a param may be anything
    """Ratios written as fractions, such as '1/6', as numbers; all else as it is."""
    found = _FRACTION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or int(found[2]) == 0:
        return value
    return round(int(found[1]) / int(found[2]), 6)
