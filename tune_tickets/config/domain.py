"""Search domains: what the YAML may give instead of a single value."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tune_tickets.config.section import Section, parse_fraction

Scalar = bool | int | float | str | None
Whole = int  # because the class below has a field named int
Number = Annotated[float, BeforeValidator(parse_fraction)]


class _Conditional(Section):
    when: dict[str, Any] = Field(
        default_factory=dict,
        description="Condition: search this only if each dotted path has the given value, or one of the given values",
    )

    def allows(self, path: str, value: Scalar) -> bool:
        """Return whether `value` meets the condition on `path`."""
        wanted = self.when[path]
        return value in wanted if isinstance(wanted, list | tuple) else value == wanted


class Uniform(_Conditional):
    """A float between two bounds, on a grid if `step` is given."""

    uniform: tuple[Number, Number]
    step: float | None = Field(None, gt=0.0)

    @model_validator(mode="after")
    def _check(self) -> "Uniform":
        _check_order(*self.uniform)
        return self

    def corners(self) -> list[Scalar]:
        """Return values that represent the domain when it is checked against the schema."""
        return list(self.uniform)

    def contains(self, value: Scalar) -> bool:
        """Return whether a value, e.g. of a warm start, is in the domain."""
        low, high = self.uniform
        if not _is_number(value) or not low <= float(value) <= high:  # type: ignore[arg-type]
            return False
        return self.step is None or _on_grid(float(value), low, self.step)  # type: ignore[arg-type]


class LogUniform(_Conditional):
    """A positive float, uniform in its logarithm."""

    log_uniform: tuple[Number, Number]

    @model_validator(mode="after")
    def _check(self) -> "LogUniform":
        _check_order(*self.log_uniform)
        if self.log_uniform[0] <= 0:
            raise ValueError(f"the lower bound of log_uniform must be above 0, got {self.log_uniform[0]}")
        return self

    def corners(self) -> list[Scalar]:
        """Return the two bounds."""
        return list(self.log_uniform)

    def contains(self, value: Scalar) -> bool:
        """Return whether a value, e.g. of a warm start, is in the domain."""
        return _is_number(value) and self.log_uniform[0] <= float(value) <= self.log_uniform[1]  # type: ignore[arg-type]


class Int(_Conditional):
    """A whole number between two bounds, both included."""

    int: tuple[Whole, Whole]
    step: Annotated[Whole, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _check(self) -> "Int":
        low, high = self.int
        if low > high:
            raise ValueError(f"empty domain: the lower bound {low} is above the upper bound {high}")
        return self

    def corners(self) -> list[Scalar]:
        """Return the two bounds."""
        return list(self.int)

    def contains(self, value: Scalar) -> bool:
        """Return whether a value, e.g. of a warm start, is in the domain."""
        low, high = self.int
        whole = _is_number(value) and float(value).is_integer()  # type: ignore[arg-type]
        return whole and low <= value <= high and (value - low) % self.step == 0  # type: ignore[operator]


class Choice(_Conditional):
    """One of the values listed."""

    choice: tuple[Annotated[Scalar, BeforeValidator(parse_fraction)], ...]

    @model_validator(mode="after")
    def _check(self) -> "Choice":
        if not self.choice:
            raise ValueError("empty domain: choice lists no value")
        if len({repr(value) for value in self.choice}) != len(self.choice):
            raise ValueError("choice lists a value twice")
        return self

    def corners(self) -> list[Scalar]:
        """Return all values."""
        return list(self.choice)

    def contains(self, value: Scalar) -> bool:
        """Return whether a value, e.g. of a warm start, is one of those listed."""
        return any(value == option and isinstance(value, bool) == isinstance(option, bool) for option in self.choice)


Domain = Uniform | LogUniform | Int | Choice
DOMAINS: dict[str, type[Domain]] = {"uniform": Uniform, "log_uniform": LogUniform, "int": Int, "choice": Choice}


def is_domain(node: Any) -> bool:  # noqa: ANN401 - any YAML value
    """Return whether a YAML node is a search domain."""
    return isinstance(node, dict) and any(key in node for key in DOMAINS)


def _check_order(low: float, high: float) -> None:
    if low >= high:
        raise ValueError(f"empty domain: the lower bound {low:g} is not below the upper bound {high:g}")


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _on_grid(value: float, low: float, step: float) -> bool:
    ticks = (value - low) / step
    return math.isclose(ticks, round(ticks), abs_tol=1e-9)
