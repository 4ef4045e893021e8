"""The base class of every YAML section, and number types that they share."""

from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """One section of the YAML file. Unknown keys are errors, values are not converted, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def parse_fraction(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """Turn the text '1/6' into a number, so that ratios can be written as in the papers."""
    if isinstance(value, str) and "/" in value:
        try:
            return float(Fraction(value.replace(" ", "")))
        except (ValueError, ZeroDivisionError):
            return value
    return value


def with_defaults(defaults: dict[str, Any], unless: str | None = None) -> BeforeValidator:
    """Return a validator that gives a section other defaults at one place of the file; not if its kind is `unless`."""

    def fill(written: Any) -> Any:  # noqa: ANN401 - any YAML value
        if not isinstance(written, dict) or (unless is not None and written.get("kind") == unless):
            return written
        return {**defaults, **written}

    return BeforeValidator(fill)


Ratio = Annotated[float, BeforeValidator(parse_fraction), Field(ge=0.0, lt=1.0)]
"""A share in [0, 1), as a number or as a fraction such as 1/6."""

LearningRate = Annotated[float, Field(gt=0.0, le=1.0)]
