"""The YAML document as nested dictionaries: looking up, setting and overriding keys by path."""

from typing import Any

from tune_tickets.config.domain import is_domain
from tune_tickets.config.source import KeyPath, Source, dotted, parse_value
from tune_tickets.errors import ConfigError

Document = dict[str, Any]


def split(name: str) -> KeyPath:
    """`method.gamma` as a path."""
    return tuple(name.split("."))


def get(document: Any, path: KeyPath) -> Any:  # noqa: ANN401 - any YAML value
    """The node at `path`, or None."""
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def put(document: Document, path: KeyPath, value: Any) -> None:  # noqa: ANN401 - any YAML value
    """Set the node at `path`, making the mappings above it."""
    for part in path[:-1]:
        document = document.setdefault(str(part), {})
    document[str(path[-1])] = value


def remove(document: Document, path: KeyPath) -> None:
    """Drop the node at `path`, if it is there, and what it leaves empty: that may belong to another method."""
    parent = get(document, path[:-1])
    if isinstance(parent, dict) and path[-1] in parent:
        del parent[path[-1]]
        if not parent:
            remove(document, path[:-1])


def apply_override(document: Document, override: str, source: Source) -> None:
    """Put the value of a `key=value` override into the document and note where it came from."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"override '{override}': expected key=value, for example search.trials=4")
    _override(document, split(key.strip()), parse_value(text), override, source)


def apply_value(document: Document, key: str, value: Any, source: Source) -> None:  # noqa: ANN401 - any YAML value
    """The same for a dotted path and a value that is no text."""
    _override(document, split(key), value, f"{key}={value}", source)


def _override(document: Document, path: KeyPath, value: Any, said: str, source: Source) -> None:  # noqa: ANN401
    for length in range(1, len(path)):
        above = get(document, path[:length])
        if above is not None and (not isinstance(above, dict) or is_domain(above)):
            raise ConfigError(f"override '{said}': {dotted(path[:length])} is a value, it has no keys below it")
    put(document, path, value)
    source.overrides[path] = said
