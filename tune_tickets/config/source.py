"""Reading YAML so that every later message can name the file, the line and the key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tune_tickets.errors import ConfigError

KeyPath = tuple[str | int, ...]


def dotted(path: KeyPath) -> str:
    """`('search', 'warm_starts', 0)` as `search.warm_starts.0`."""
    return ".".join(str(part) for part in path)


@dataclass
class Source:
    """Where each key of a configuration stands: a line of the file, or an override on the command line."""

    file: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    overrides: dict[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """The place of the key, or of the nearest key above it."""
        for length in range(len(path), 0, -1):
            prefix = path[:length]
            if prefix in self.overrides:
                return f"override '{self.overrides[prefix]}'"
            if prefix in self.lines:
                return f"{self.file}:{self.lines[prefix]}"
        return self.file

    def error(self, path: KeyPath, message: str) -> ConfigError:
        """A ConfigError that names the place and the key."""
        key = f"{dotted(path)}: " if path else ""
        return ConfigError(f"{self.where(path)}: {key}{message}")


def read_yaml(path: Path) -> tuple[dict[str, Any], Source]:
    """The file as plain Python values, and where each of its keys stands."""
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
    """A copy in dictionaries, lists and Python's own scalars, as a YAML file would have given it."""
    return _plain(node, (), Source("dictionary"))


def parse_value(text: str) -> Any:  # noqa: ANN401 - any YAML scalar, list or mapping
    """The right-hand side of a `key=value` override, read as YAML."""
    try:
        return _plain(YAML(typ="rt", pure=True).load(text), (), Source("override"))
    except YAMLError as error:
        problem = getattr(error, "problem", None) or error
        raise ConfigError(f"override value {text!r} is not valid YAML: {problem}") from None


def _plain(node: Any, path: KeyPath, source: Source) -> Any:  # noqa: ANN401
    if isinstance(node, Mapping):
        if isinstance(node, CommentedMap):
            for key in node.lc.data or ():  # keys merged in from an anchor stand elsewhere: the mapping is their place
                source.lines[(*path, key)] = _line(node.lc.key, key)
        return {key: _plain(value, (*path, key), source) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, str):
        if isinstance(node, CommentedSeq):
            for index in range(len(node)):
                source.lines[(*path, index)] = _line(node.lc.item, index)
        return [_plain(value, (*path, index), source) for index, value in enumerate(node)]
    for kind in (bool, int, float, str):  # the parser's scalars are subclasses that remember their formatting
        if isinstance(node, kind):
            return kind(node)
    return node


def _line(position: Any, key: str | int) -> int:  # noqa: ANN401
    return int(position(key)[0]) + 1


def _explain_yaml(path: Path, error: YAMLError) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"{path}:{error.problem_mark.line + 1}: not valid YAML: {str(error.problem).strip()}"
    return f"{path}: not valid YAML: {error}"
