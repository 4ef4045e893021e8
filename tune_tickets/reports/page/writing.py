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
from tune_tickets.results.folder import Results

TEMPLATES = Path(__file__).parent / "templates"
LARGEST_SVG = 300_000
"""Bytes; larger drawings are shown as PNG, so that the page stays small."""
WIDE = 1250
"""From this width in pixels a picture gets its own row: next to another one its text would be too small."""
LEGIBLE = 0.45
"""Scale at which letters of 8 points have 7 pixels on the screen."""


def html_page(content: Content) -> str:
    """Render the page. Attacked texts, settings and errors are untrusted: every value is escaped."""
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
    """Return the content security policy: markup that slips through can neither run nor load anything."""
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
    """Return a picture as the source of an image. Scripts in an SVG do not run there."""
    kind, content = ("svg+xml", picture.svg) if len(picture.svg) <= LARGEST_SVG else ("png", picture.png)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def is_wide(picture: Picture) -> bool:
    """Whether a picture needs its own row."""
    return _pixels(picture) >= WIDE


def legible(picture: Picture) -> str:
    """Return the smallest readable width; narrower screens scroll."""
    return f"{round(LEGIBLE * _pixels(picture))}px"


def _pixels(picture: Picture) -> int:
    """The width in the header of a PNG."""
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
    """Escape control characters and marks that change the reading direction. `Markup` is our own and stays."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else harmless(value)


@dataclass(frozen=True)
class ReportFiles:
    """The paths of the two versions."""

    html: Path
    markdown: Path


def write_report(folder: Path, pictures: Sequence[Picture] = ()) -> ReportFiles:
    """Write the report of a results folder.

    Raises:
        TicketsError: the folder cannot be read or written.
    """
    source = read_source(folder)
    content = content_of(source, pictures)
    place = source.finished.folder
    drawn = [f"{FOLDER}/{path.name}" for path in (place / FOLDER).glob("*.png")]
    html = Results(place, store_url="").report
    files = ReportFiles(html, html.with_suffix(".md"))
    _write(files.html, html_page(content))
    _write(files.markdown, markdown_page(content, drawn))
    return files


def _write(path: Path, text: str) -> None:

    try:
        write_atomic(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise TicketsError(
            f"{path} cannot be written: {error.strerror}. Copy the results to a writable folder."
        ) from None
