"""Text for Markdown that no reader of Markdown can take for markup, however hostile it is."""

import re
from collections.abc import Iterable, Sequence

from tune_tickets.reporting.marking import harmless

_MARKUP = re.compile(r"[\\`*_{}\[\]#|~!$^=]")
_INTERVAL = re.compile(r"\[[0-9.,% -]+\](?!\(|\[|:)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_LISTS = re.compile(r"^(\s*)([-+]|\d+[.)])(?=\s)")
_LINKS = (("://", "&#58;//"), ("www.", "www&#46;"))  # some readers turn bare addresses into links


def escaped(text: str) -> str:
    """The text as it is to be read, on one line; intervals such as [1.0-2.0] stay as they are."""
    parts, end = [], 0
    shown = harmless(text)
    for interval in _INTERVAL.finditer(shown):
        parts += [_escaped(shown[end : interval.start()]), interval.group()]
        end = interval.end()
    line = "".join([*parts, _escaped(shown[end:])])
    for found, instead in _LINKS:
        line = line.replace(found, instead)
    return _LISTS.sub(lambda match: f"{match[1]}{match[2][:-1]}\\{match[2][-1]}", line)


def code(text: str) -> str:
    """The text as a code span; what would end the span or a cell of a table is shown by another way."""
    shown = harmless(text)
    return f"`{shown}`" if shown and not set("`|\\<") & set(shown) else escaped(shown)


def table(lines: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already; the first line is the header."""
    header, *rest = [[cell or " " for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rest))


def bullets(lines: Iterable[str]) -> str:
    """A list of lines that are escaped already."""
    return "\n".join(f"- {line}" for line in lines)


def block(lines: Sequence[str], language: str) -> str:
    """Lines of code, in a fence that none of them can end."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *map(harmless, lines), fence])


def _escaped(text: str) -> str:
    marked = _MARKUP.sub(lambda match: f"\\{match.group()}", text)
    return "".join(_ENTITIES.get(letter, letter) for letter in marked)
