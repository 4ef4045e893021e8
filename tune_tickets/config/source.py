"""Reads YAML and remembers the line of every key, so that error messages can name file, line and key."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tune_tickets.config.domain import is_domain
from tune_tickets.errors import ConfigError

KeyPath = tuple[str | int, ...]


def dotted(path: KeyPath) -> str:
    """Return `('search', 'warm_starts', 0)` as `search.warm_starts.0`."""
    return ".".join(str(part) for part in path)


@dataclass
class Source:
    """The place of each key of a configuration: a line of the file, or an override on the command line."""

    file: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    overrides: dict[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """Return the place of the key, or of the nearest key above it."""
        for length in range(len(path), 0, -1):
            prefix = path[:length]
            if prefix in self.overrides:
                return f"override '{self.overrides[prefix]}'"
            if prefix in self.lines:
                return f"{self.file}:{self.lines[prefix]}"
        return self.file

    def error(self, path: KeyPath, message: str) -> ConfigError:
        """Return a ConfigError that names the place and the key."""
        key = f"{dotted(path)}: " if path else ""
        return ConfigError(f"{self.where(path)}: {key}{message}")


def read_yaml(path: Path) -> tuple[dict[str, Any], Source]:
    """Return the file as plain Python values, and the place of each key."""
    source = Source(str(path))
    if not path.is_file():
        raise ConfigError(f"{path}: no such file. Name an experiment YAML, for example search_spaces/earlyrobust.yaml")
    try:
        document = YAML(typ="rt", pure=True).load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except YAMLError as error:
        raise ConfigError(_explain_yaml(path, error)) from None
    if not isinstance(document, CommentedMap):
        raise ConfigError(f"{path}:1: expected a mapping of sections such as 'model:' and 'method:' at the top level")
    values = _plain(document, (), source)
    assert isinstance(values, dict)
    return values, source


def plain(node: Any) -> Any:  # noqa: ANN401 - any nested value
    """Return a copy made of plain dictionaries, lists and scalars, as read from a YAML file."""
    return _plain(node, (), Source("dictionary"))


def _parse_value(text: str) -> Any:  # noqa: ANN401 - any YAML scalar, list or mapping
    """Parse the right-hand side of a `key=value` override as YAML."""
    try:
        return _plain(YAML(typ="rt", pure=True).load(text), (), Source("override"))
    except YAMLError as error:
        problem = getattr(error, "problem", None) or error
        raise ConfigError(f"override value {text!r} is not valid YAML: {problem}") from None


def _plain(node: Any, path: KeyPath, source: Source) -> Any:  # noqa: ANN401
    if isinstance(node, Mapping):
        if isinstance(node, CommentedMap):
            for key in node.lc.data or ():  # without keys merged from an anchor: their place is the mapping
                source.lines[(*path, key)] = _line(node.lc.key, key)
        return {key: _plain(value, (*path, key), source) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, str):
        if isinstance(node, CommentedSeq):
            for index in range(len(node)):
                source.lines[(*path, index)] = _line(node.lc.item, index)
        return [_plain(value, (*path, index), source) for index, value in enumerate(node)]
    for kind in (bool, int, float, str):  # the scalars of the parser are subclasses with formatting
        if isinstance(node, kind):
            return kind(node)
    return node


def _line(position: Any, key: str | int) -> int:  # noqa: ANN401
    return int(position(key)[0]) + 1


def _explain_yaml(path: Path, error: YAMLError) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"{path}:{error.problem_mark.line + 1}: not valid YAML: {str(error.problem).strip()}"
    return f"{path}: not valid YAML: {error}"


Document = dict[str, Any]


def split(name: str) -> KeyPath:
    """Return `method.gamma` as a path."""
    return tuple(name.split("."))


def get(document: Any, path: KeyPath) -> Any:  # noqa: ANN401 - any YAML value
    """Return the node at `path`, or None."""
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def put(document: Document, path: KeyPath, value: Any) -> None:  # noqa: ANN401 - any YAML value
    """Set the node at `path`, and create the mappings above it."""
    for part in path[:-1]:
        document = document.setdefault(str(part), {})
    document[str(path[-1])] = value


def remove(document: Document, path: KeyPath) -> None:
    """Remove the node at `path` if it exists, and sections that become empty: they may belong to another method."""
    parent = get(document, path[:-1])
    if isinstance(parent, dict) and path[-1] in parent:
        del parent[path[-1]]
        if not parent:
            remove(document, path[:-1])


def apply_override(document: Document, override: str, source: Source) -> None:
    """Apply a `key=value` override to the document, and record its origin."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"override '{override}': expected key=value, for example search.trials=4")
    _override(document, split(key.strip()), _parse_value(text), override, source)


def apply_value(document: Document, key: str, value: Any, source: Source) -> None:  # noqa: ANN401 - any YAML value
    """Like `apply_override`, for a dotted path and a value that is already parsed."""
    _override(document, split(key), value, f"{key}={value}", source)


def _override(document: Document, path: KeyPath, value: Any, shown: str, source: Source) -> None:  # noqa: ANN401
    for length in range(1, len(path)):
        above = get(document, path[:length])
        if above is not None and (not isinstance(above, dict) or is_domain(above)):
            raise ConfigError(f"override '{shown}': {dotted(path[:length])} is a value and has no keys")
    put(document, path, value)
    source.overrides[path] = shown


T = TypeVar("T", bound=BaseModel)
_MOST = 5


def validate(schema: type[T], raw: dict[str, Any], source: Source, prefix: KeyPath = ()) -> T:
    """Return `raw` as an instance of `schema`.

    Raises:
        ConfigError: It does not fit the schema. The message names the place of every problem.
    """
    try:
        # JSON mode: strict types, but lists become tuples.
        return schema.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        details = error.errors(include_url=False)
        lines = [_explain(detail, raw, schema, source, prefix) for detail in details[:_MOST]]
        if len(details) > _MOST:
            lines.append(f"... and {len(details) - _MOST} more")
        raise ConfigError("\n".join(lines)) from None
    except TypeError as error:
        raise ConfigError(f"{source.file}: a value has a type that YAML configurations do not use ({error})") from None


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
        message = "is missing; it decides which keys this section has"
    elif detail["type"] == "value_error":
        message = str(detail["ctx"]["error"])
    else:
        shown = "" if detail["type"] == "missing" else f" (got {_shown(detail['input'])})"
        message = detail["msg"][:1].lower() + detail["msg"][1:] + shown
    return str(source.error((*prefix, *path), message))


def _yaml_path(loc: tuple[int | str, ...], raw: Any) -> KeyPath:  # noqa: ANN401
    """Return the location of an error without the tags that pydantic adds for unions."""
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
    """Return the field names of the section at `path`, following the `kind` of unions."""
    current: Any = schema
    node = raw
    for part in path:
        field = current.model_fields.get(part) if isinstance(part, str) else None
        node = node.get(part) if isinstance(node, dict) else None
        candidates = _models_in(field.annotation) if field is not None else []
        kind = node.get("kind") if isinstance(node, dict) else None
        matching = [model for model in candidates if _kind_of(model) == kind]
        for model in candidates:
            if hasattr(model, "of_kind"):
                with suppress(LookupError, ValueError):
                    matching = [model.of_kind(str(kind))]
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
