"""`method:`: the base class of all method schemas, and how `kind` selects one of them."""

import json
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from tune_tickets.config.section import Section
from tune_tickets.config.training import Drawing

if TYPE_CHECKING:
    from tune_tickets.config.experiment import Settings

ENTRY_POINTS = "tune_tickets.methods"
"""Entry-point group for methods of other packages. The name of an entry point is its `kind`."""
BUILT_IN = "tune_tickets.methods"
_MODULE_OF_CLASS = "package.module:Class"


class MethodSection(Section):
    """What the rest of the package may ask a method. `methods.base.Method` adds how it finds tickets."""

    kind: str = Field(description="The method, or `package.module:Class` of one outside this package")

    finds_ticket: ClassVar[bool] = True
    """False if the method trains the whole model."""
    at_random: ClassVar[bool] = False
    """True for the random control, which is not compared with random tickets."""
    masks_classifier: ClassVar[bool] = False
    """True if masks also cover the classifier. They only fit tasks with the same number of labels."""

    @classmethod
    def of_kind(cls, kind: str) -> "type[MethodSection]":
        """Return the schema of another method, see `method_type`."""
        return method_type(kind)

    @property
    def label(self) -> str:
        """The name of its tickets in tables."""
        return self.kind

    def changes(self) -> Iterator[str]:
        """Yield how a run differs from the paper's method, for titles."""
        yield from ()

    @property
    def retrained(self) -> bool:
        """Whether a ticket is retrained after it was found."""
        return True

    @property
    def trains_on_ood(self) -> bool:
        """Whether rows of the OOD twins are used for training."""
        return False

    @property
    def ratios(self) -> Drawing | None:
        """The shares of heads and neurons to cut, if further tasks may use other shares; else None."""
        return None

    @property
    def ticket_file(self) -> str | None:
        """The ticket file that the method reads, or None."""
        return None

    not_searchable: ClassVar[dict[str, str]] = {}
    """Fields that cannot be search domains, and why."""

    @property
    def text_corpus(self) -> str | None:
        """The corpus of plain texts that tickets are searched on, or None."""
        return None

    def lengths(self) -> dict[str, int]:
        """Return its fields that are lengths in tokens. The model must have as many positions."""
        return {}

    def read_texts(self, seed: int) -> tuple[str, ...]:
        """Return the texts of this corpus. The driver calls this once."""
        return ()

    def stop_rule(self) -> dict[str, Any] | None:
        """Return the goal of its extensible stages, or None."""
        return None

    def check(self, settings: "Settings") -> None:
        """Check the settings against the method.

        Raises:
            ValueError: They do not fit. The message says what to do.
        """


def method_type(kind: str) -> type[MethodSection]:
    """Find the schema of a method.

    Args:
        kind: A method of this package, the name of an entry point in the group `tune_tickets.methods`, or
            `package.module:Class`.

    Returns:
        The class.

    Raises:
        LookupError: There is no such method. The argument lists the known methods.
        ValueError: The class cannot be imported, or is not a method.
    """
    if ":" in kind:
        return _from_path(kind)
    if kind in built_in_methods():
        return built_in_methods()[kind]
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == kind:
            return _from_path(point.value)
    known = [*built_in_methods(), *(point.name for point in entry_points(group=ENTRY_POINTS))]
    raise LookupError(", ".join(map(repr, [*known, _MODULE_OF_CLASS])))


@cache
def built_in_methods() -> dict[str, type[MethodSection]]:
    """Return the methods of this package by kind, which is the name of their module in `tune_tickets.methods`."""
    found: dict[str, type[MethodSection]] = {}
    for module in pkgutil.iter_modules(import_module(BUILT_IN).__path__):
        loaded = import_module(f"{BUILT_IN}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, MethodSection) and value.__module__ == loaded.__name__:
                kind = value.model_fields["kind"].default
                if kind == module.name:
                    found[kind] = value
    return found


def _from_path(kind: str) -> type[MethodSection]:
    module, _, name = kind.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise ValueError(
            f"{kind!r}: cannot import {module} ({error}). Install it, or put its folder on PYTHONPATH"
        ) from None
    return _checked(found, kind)


def _checked(found: Any, what: str) -> type[MethodSection]:  # noqa: ANN401 - whatever the name refers to
    if not (isinstance(found, type) and issubclass(found, MethodSection)):
        raise ValueError(f"{what!r} is not a class that derives from tune_tickets.methods.base.Method")
    return found


class _ByKind:
    """Tells pydantic to validate a section with the schema that its `kind` names."""

    @staticmethod
    def validate(value: Any) -> MethodSection:  # noqa: ANN401 - any YAML value
        """Validate with the schema of the kind. Errors have the types of pydantic's tagged unions."""
        if isinstance(value, MethodSection):
            return value
        if not isinstance(value, dict):
            raise PydanticCustomError("model_type", "Input should be a mapping")
        kind = value.get("kind")
        if kind is None:
            raise PydanticCustomError("union_tag_not_found", "Unable to extract the kind")
        try:
            schema = method_type(str(kind))
        except LookupError as error:
            context = {"tag": str(kind), "expected_tags": str(error.args[0])}
            raise PydanticCustomError("union_tag_invalid", "Unknown kind", context) from None
        # JSON mode: strict types, but lists become tuples.
        return schema.model_validate_json(json.dumps(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        """Return a core schema that validates and serialises by the class of the value."""
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value, info: value.model_dump(mode=info.mode), info_arg=True
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the union of all methods of this package, for editors."""
        kinds = tuple(built_in_methods().values())
        union: Any = Annotated[Union[kinds], Field(discriminator="kind")]  # noqa: UP007 - a tuple of classes
        return handler(TypeAdapter(union).core_schema)


AnyMethod = Annotated[MethodSection, _ByKind()]
