"""The JSON schema of experiment files, for completion and checks in editors."""

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from tune_tickets.config.domain import Domain
from tune_tickets.config.experiment import Settings
from tune_tickets.config.loading import SEARCHABLE

_SEARCHABLE_TYPES = {"number", "integer", "boolean", "string"}


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of an experiment file. It allows a search domain wherever the loader does."""
    schema = Settings.model_json_schema()
    domain = TypeAdapter(Domain).json_schema(ref_template="#/$defs/{model}")
    definitions = schema["$defs"]
    definitions.update(domain.pop("$defs"))
    definitions["Domain"] = domain
    for section in _searchable(schema):
        properties = definitions[section]["properties"]
        properties.update({name: _with_domain(value) for name, value in properties.items()})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "tune_tickets experiment"
    return schema


def _searchable(schema: dict[str, Any]) -> set[str]:
    """Return the names of all sections that may contain search domains."""
    sections = {"": schema["properties"], "transfer.*.": schema["$defs"]["Transfer"]["properties"]}
    pending = [
        property
        for prefix, properties in sections.items()
        for name, property in properties.items()
        if f"{prefix}{name}" in SEARCHABLE
    ]
    found: set[str] = set()
    while pending:
        new = {ref.rsplit("/", 1)[-1] for ref in _references(pending.pop())} - found
        found |= new
        pending += [schema["$defs"][name].get("properties", {}) for name in new]
    return found


def _references(node: Any) -> Iterator[str]:  # noqa: ANN401 - any part of a schema
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key == "$ref" else _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _with_domain(value: dict[str, Any]) -> dict[str, Any]:
    kinds = {option.get("type") for option in value.get("anyOf", [value])}
    if "const" in value or not kinds & _SEARCHABLE_TYPES:
        return value
    outer: dict[str, Any] = {key: value[key] for key in ("default", "description", "title") if key in value}
    inner = {key: item for key, item in value.items() if key not in outer}
    return {**outer, "anyOf": [inner, {"$ref": "#/$defs/Domain"}]}
