"""The JSON schema of experiment files, for completion and checks in editors."""

from typing import Any

from pydantic import TypeAdapter

from tune_tickets.config.domain import Domain
from tune_tickets.config.experiment import Settings

_SEARCHABLE_TYPES = {"number", "integer", "boolean", "string"}
_SEARCHABLE_SECTIONS = (
    "EarlyRobust",
    "ORTicket",
    "Fitting",
    "RobustT",
    "Imp",
    "SRNets",
    "Start",
    "RandomTicket",
    "Drawing",
    "Adversary",
    "Regulariser",
    "Debiasing",
    "BiasModel",
    "Teacher",
    "Retraining",
    "Ablation",
)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of an experiment file. It allows a search domain wherever the loader does."""
    schema = Settings.model_json_schema()
    domain = TypeAdapter(Domain).json_schema(ref_template="#/$defs/{model}")
    definitions = schema["$defs"]
    definitions.update(domain.pop("$defs"))
    definitions["Domain"] = domain
    for section in _SEARCHABLE_SECTIONS:
        properties = definitions[section]["properties"]
        for name, value in properties.items():
            if name != "kind" or section in ("Adversary", "Regulariser"):
                properties[name] = _with_domain(value)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "tune_tickets experiment"
    return schema


def _with_domain(value: dict[str, Any]) -> dict[str, Any]:
    kinds = {option.get("type") for option in value.get("anyOf", [value])}
    if not kinds & _SEARCHABLE_TYPES:
        return value
    outer: dict[str, Any] = {key: value[key] for key in ("default", "description", "title") if key in value}
    inner = {key: item for key, item in value.items() if key not in outer}
    return {**outer, "anyOf": [inner, {"$ref": "#/$defs/Domain"}]}
