"""`report.html` and `report.md` in a results folder."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tune_tickets.errors import TicketsError
from tune_tickets.files import write_atomic
from tune_tickets.reports.attacked import harmless, lookalikes
from tune_tickets.reports.page import figures as plane
from tune_tickets.reports.page.content import CONTROLS, Content, content_of
from tune_tickets.reports.page.markdown import markdown_page
from tune_tickets.reports.page.source import read_source
from tune_tickets.reports.pictures.style import FOLDER, Picture

TEMPLATES = Path(__file__).parent / "templates"
LARGEST_SVG = 300_000
"""Bytes; a drawing with more than that is shown as pixels, so that the page stays light."""
WIDE = 1250
"""Pixels of the PNG from which a picture has a line of its own: beside another its text would be too small."""
LEGIBLE = 0.45
"""Of the pixels of the PNG: letters of 8 points then have 7 pixels of the screen."""


def html_page(content: Content) -> str:
    """Attacked texts, settings and errors are hostile until shown: every value is escaped, no markup is passed on."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    methods = [line.method for line in content.table.lines] if content.table else []
    return _environment().get_template("page.html.j2").render(
        content=content,
        style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        policy=policy(script),
        plane=plane,
        controls_said=CONTROLS,
        colours=plane.colours(methods),
    )  # fmt: skip


def policy(script: str) -> str:
    """The page's content security policy: should markup ever slip through, it can neither run nor call out."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    allowed = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "script-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def data_uri(picture: Picture) -> str:
    """As the source of an image: scripts inside a drawing do not run there."""
    kind, content = ("svg+xml", picture.svg) if len(picture.svg) <= LARGEST_SVG else ("png", picture.png)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def is_wide(picture: Picture) -> bool:
    """Whether it needs a line of its own."""
    return _pixels(picture) >= WIDE


def legible(picture: Picture) -> str:
    """The least width at which its smallest letters can be read, for screens that are narrower and have to scroll."""
    return f"{round(LEGIBLE * _pixels(picture))}px"


def _pixels(picture: Picture) -> int:
    """The width that a PNG names in its head."""
    return int.from_bytes(picture.png[16:20], "big")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data_uri"] = data_uri
    environment.filters["wide"] = is_wide
    environment.filters["legible"] = legible
    environment.filters["lookalikes"] = lookalikes
    return environment


def _visible(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Control characters and marks that turn the reading direction are written out; markup is our own and stays."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else harmless(value)


HTML_FILE = "report.html"
MARKDOWN_FILE = "report.md"


@dataclass(frozen=True)
class ReportFiles:
    """Where the two versions are."""

    html: Path
    markdown: Path


def write_report(folder: Path, pictures: Sequence[Picture] = ()) -> ReportFiles:
    """Make the report of a results folder anew from what lies in it."""
    source = read_source(folder)
    content = content_of(source, pictures)
    place = source.finished.folder
    drawn = [f"{FOLDER}/{path.name}" for path in (place / FOLDER).glob("*.png")]
    files = ReportFiles(place / HTML_FILE, place / MARKDOWN_FILE)
    _write(files.html, html_page(content))
    _write(files.markdown, markdown_page(content, drawn))
    return files


def _write(path: Path, text: str) -> None:
    """In one move: a reader sees the old page or the new one."""
    try:
        write_atomic(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise TicketsError(
            f"{path} cannot be written: {error.strerror}. Copy the results to a folder that can be written to."
        ) from None
