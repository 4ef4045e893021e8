"""Turning Pydantic's findings into messages that name file, line and key and say what to do."""

import json
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tune_tickets.config.source import KeyPath, Source
from tune_tickets.errors import ConfigError

T = TypeVar("T", bound=BaseModel)
_MOST = 5


def validate(schema: type[T], raw: dict[str, Any], source: Source, prefix: KeyPath = ()) -> T:
    """`raw` as an instance of `schema`; a ConfigError with the place of every finding otherwise."""
    try:
        # JSON mode: strict on types, yet lists become tuples.
        return schema.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        details = error.errors(include_url=False)
        lines = [_explain(detail, raw, schema, source, prefix) for detail in details[:_MOST]]
        if len(details) > _MOST:
            lines.append(f"... and {len(details) - _MOST} more")
        raise ConfigError("\n".join(lines)) from None
    except TypeError as error:
        raise ConfigError(f"{source.file}: a value is of a type YAML configurations do not use ({error})") from None


def _explain(
    detail: ErrorDetails, raw: dict[str, Any], schema: type[BaseModel], source: Source, prefix: KeyPath
) -> str:
    path = _yaml_path(detail["loc"], raw)
    if detail["type"] == "extra_forbidden":
        message = "unknown key" + _suggestion(str(path[-1]), _fields_at(schema, path[:-1], raw))
    elif detail["type"] == "union_tag_invalid":
        path = (*path, "kind")
        message = f"must be one of {detail['ctx']['expected_tags']} (got {detail['ctx']['tag']!r})"
    elif detail["type"] == "union_tag_not_found":
        path = (*path, "kind")
        message = "is missing; it says which kind of section this is"
    elif detail["type"] == "value_error":
        message = str(detail["ctx"]["error"])
    else:
        shown = "" if detail["type"] == "missing" else f" (got {_shown(detail['input'])})"
        message = detail["msg"][:1].lower() + detail["msg"][1:] + shown
    return str(source.error((*prefix, *path), message))


def _yaml_path(loc: tuple[int | str, ...], raw: Any) -> KeyPath:  # noqa: ANN401
    """Pydantic's location without the tags it adds for unions."""
    path: list[int | str] = []
    node = raw
    for position, part in enumerate(loc):
        if _has(node, part):
            node = node[part]
        elif position < len(loc) - 1 or not isinstance(node, dict):
            continue  # a union tag such as 'earlyrobust' or 'str'
        path.append(part)
    return tuple(path)


def _shown(value: Any) -> str:  # noqa: ANN401
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _has(node: Any, part: int | str) -> bool:  # noqa: ANN401
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, dict) and part in node


def _suggestion(key: str, known: list[str]) -> str:
    close = get_close_matches(key, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; the keys here are {', '.join(known)}" if known else ""


def _fields_at(schema: type[BaseModel], path: KeyPath, raw: Any) -> list[str]:  # noqa: ANN401
    """Names of the fields of the section at `path`, following the `kind` of unions."""
    current: Any = schema
    node = raw
    for part in path:
        field = current.model_fields.get(part) if isinstance(part, str) else None
        node = node.get(part) if isinstance(node, dict) else None
        candidates = _models_in(field.annotation) if field is not None else []
        kind = node.get("kind") if isinstance(node, dict) else None
        matching = [model for model in candidates if _kind_of(model) == kind]
        if not (matching or candidates):
            return []
        current = (matching or candidates)[0]
    return list(current.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]


def _kind_of(model: type[BaseModel]) -> Any:  # noqa: ANN401
    field = model.model_fields.get("kind")
    return field.default if field is not None else None
