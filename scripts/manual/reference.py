"""Write the YAML reference from the Pydantic schemas: `python scripts/manual/reference.py` prints it."""

import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tune_tickets.config.domain import DOMAINS
from tune_tickets.config.experiment import Settings
from tune_tickets.config.loading import SEARCHABLE
from tune_tickets.config.method import MethodSection, built_in_methods

PAGE = "reference.md"
_OPENING = """\
# YAML reference

This page is written from the schemas when the site is built. Unknown keys are errors, and values are not converted to
other types. `tune-tickets schema > experiment.schema.json` writes the same rules for your editor.

Fields marked **searched** take a value or a search domain. They are in the sections {sections}.
Shares can be written as fractions (`1/6`).

## Search domains

| domain | |
|---|---|
{domains}

With `step:`, the values of a `uniform` or `int` domain lie on a grid. With `when:`, a domain is searched only if
another key has a given value: `{{int: [2, 5], when: {{method.adversary.kind: freelb}}}}`. A list allows all its values.
"""


@dataclass(frozen=True)
class Place:
    """A section of the YAML file: its path, its schema and its depth."""

    path: str
    schema: type[BaseModel]
    depth: int = 0
    parent: str = ""
    """The heading of its parent section; `method.adversary` has several parents."""

    @property
    def heading(self) -> str:
        """The path, with the kind if the kind decides which section it is."""
        kind = _kind(self.schema)
        return f"{self.path}: {{kind: {kind}}}" if kind else self.path or "Top level"

    @property
    def anchor(self) -> str:
        """The heading as the anchor of a link."""
        return re.sub(r"[^a-z0-9]+", "-", self.heading.lower()).strip("-")

    @property
    def searchable(self) -> bool:
        """Whether its fields take search domains."""
        return any(fnmatch(f"{self.path}.x", f"{section}.*") for section in SEARCHABLE)

    def below(self, name: str) -> list["Place"]:
        """Return the sections that a field can contain."""
        field = self.schema.model_fields[name]
        path = ".".join(filter(None, [self.path, name, "<name>" if _by_name(field) else ""]))
        return [Place(path, schema, self.depth + 1, self.heading) for schema in _schemas(field.annotation)]


Homes = dict[tuple[type[BaseModel], bool], Place]
"""Where the fields of a schema are listed: at its shallowest place, separately for searched and fixed fields."""


def on_files(files: Any, /, *, config: Any) -> Any:  # noqa: ANN401 - types of mkdocs, which need not be installed
    """Add the page to the site."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=reference()))
    return files


def reference() -> str:
    """Return the whole page."""
    sections = ", ".join(f"`{section}`" for section in SEARCHABLE)
    domains = "\n".join(f"| `{{{name}: [...]}}` | {_sentence(schema)} |" for name, schema in DOMAINS.items())
    top = Place("", Settings)
    homes: Homes = {}
    level = [top]
    while level:
        level.sort(key=lambda place: "<name>" in place.path)  # at equal depth, prefer places without a free name
        level = [place for place in level if homes.setdefault((place.schema, place.searchable), place) is place]
        level = [below for place in level for name in place.schema.model_fields for below in place.below(name)]
    return "\n".join([_OPENING.format(sections=sections, domains=domains), *_sections(top, homes)])


def _sections(place: Place, homes: Homes) -> Iterator[str]:
    """Return a section and its subsections, each at its home."""
    yield _section(place, homes)
    for name in place.schema.model_fields:
        for below in place.below(name):
            if homes[below.schema, below.searchable] == below:
                yield from _sections(below, homes)


def _section(place: Place, homes: Homes) -> str:
    title = f"`{place.heading}`" if place.path else place.heading
    rows = [_row(name, field, place, homes) for name, field in place.schema.model_fields.items()]
    lines = [f"{'#' * min(max(place.depth, 1) + 1, 4)} {title} {{: #{place.anchor} }}", "", _sentence(place.schema), ""]
    return "\n".join([*lines, "| key | | type | default |", "|---|---|---|---|", *rows, ""])


def _row(name: str, field: FieldInfo, place: Place, homes: Homes) -> str:
    searched = place.searchable and name not in _fixed(place.schema) and _is_scalar(field.annotation)
    words = ["**searched**." if searched else "", _cell(field.description or "").rstrip(".")]
    below = [homes[one.schema, one.searchable] for one in place.below(name)]
    if below:
        links = ", ".join(f"[`{one.heading}`](#{one.anchor})" for one in below)
        words[1] = f"{words[1]}. See {links}" if words[1] else f"See {links}"
    return f"| `{name}` | {' '.join(filter(None, words))} | {_cell(_type(field))} | {_default(field)} |"


def _fixed(schema: type[BaseModel]) -> set[str]:
    """Return the fields that cannot be searched: a `kind` with one value only names the section."""
    return {"kind"} if _kind(schema) else set()


def _kind(schema: type[BaseModel]) -> str | None:
    field = schema.model_fields.get("kind")
    if field is None or get_origin(field.annotation) is not Literal:
        return None
    options = get_args(field.annotation)
    return str(options[0]) if len(options) == 1 else None


def _options(annotation: Any) -> list[Any]:  # noqa: ANN401 - any annotation
    """Return the members of a union, without Annotated."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [option for part in get_args(annotation) for option in _options(part)]
    return [annotation]


def _schemas(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401
    found: list[type[BaseModel]] = []
    for option in _options(annotation):
        if option is MethodSection:
            found += built_in_methods().values()
        elif isinstance(option, type) and issubclass(option, BaseModel):
            found.append(option)
        elif get_origin(option) in (tuple, dict):
            found += [schema for part in get_args(option) if part is not ... for schema in _schemas(part)]
    return found


def _by_name(field: FieldInfo) -> bool:
    return any(get_origin(option) is dict for option in _options(field.annotation)) and bool(_schemas(field.annotation))


def _is_scalar(annotation: Any) -> bool:  # noqa: ANN401
    return any(option in (bool, int, float, str) or get_origin(option) is Literal for option in _options(annotation))


def _type(field: FieldInfo) -> str:
    words = [_name(option) for option in _options(field.annotation)]
    bounds = [bound for item in [*field.metadata, *_metadata(field.annotation)] for bound in _bounds(item)]
    return " or ".join(dict.fromkeys(words)) + (f", {' and '.join(bounds)}" if bounds else "")


def _metadata(annotation: Any) -> list[Any]:  # noqa: ANN401
    """Return the metadata that Annotated adds to the members of a union."""
    own = list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []
    inner = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()
    flat = [item for each in own for item in (each.metadata if isinstance(each, FieldInfo) else [each])]
    return [*flat, *(item for part in inner for item in _metadata(part))]


def _bounds(item: Any) -> Iterator[str]:  # noqa: ANN401 - annotated-types
    for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤")):
        if (value := getattr(item, name, None)) is not None:
            yield f"{sign} {_number(value)}"


def _number(value: float) -> str:
    return "2³¹ − 1" if value == 2**31 - 1 else f"{value:g}" if isinstance(value, float) else str(value)


def _name(option: Any) -> str:  # noqa: ANN401
    if option is type(None):
        return "null"
    if get_origin(option) is Literal:
        return " ".join(f"`{value}`" for value in get_args(option))
    if get_origin(option) is dict:
        return "mapping"
    if get_origin(option) is tuple:
        return "list"
    if isinstance(option, type) and issubclass(option, BaseModel):
        return "section"
    return {bool: "true or false", int: "whole number", float: "number", str: "text"}.get(option, "anything")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        changed = value.model_dump(exclude_unset=True)
        return "its defaults" if not changed else ", ".join(f"`{key}: {_value(item)}`" for key, item in changed.items())
    return f"`{_value(value)}`"


def _value(value: Any) -> str:  # noqa: ANN401
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        fractions = {1 / 6: "1/6", 2 / 3: "2/3"}
        return fractions.get(value, f"{value:g}")
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return "{}" if value == {} else str(value)


def _sentence(schema: type[BaseModel]) -> str:
    return _cell(" ".join((schema.__doc__ or "").split()))


def _cell(text: str) -> str:
    """Escape text for a table. Braces become code, because Markdown would read them as attributes."""
    return re.sub(r"(?<!`)(\{[^}]*\})", r"`\1`", text).replace("|", "\\|")


if __name__ == "__main__":
    print(reference())
