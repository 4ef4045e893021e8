"""The style of all pictures, and pictures as files."""

import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

INK, FAINT = "#1a1a1a", "#8a8a8a"
SCALE = "viridis"
"""The colour map of quantities: steadily lighter, so that it also works in grey."""
DPI = 150
_RC: Any = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so it is the same on every machine
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.5,
    "text.parse_math": False,  # a dollar sign in a name or an attacked text is no formula
    "svg.fonttype": "none",  # text stays text, so it can be searched and selected
    "svg.hashsalt": "tune_tickets",  # makes the bytes reproducible
    "savefig.dpi": DPI,
}


class Look(NamedTuple):
    """How one series is drawn."""

    colour: str
    marker: str
    line: Any


LOOKS = (
    Look("#0b1d51", "o", "-"),
    Look("#8c1c5a", "s", "--"),
    Look("#0f72a8", "^", "-."),
    Look("#cf6a2c", "p", ":"),
    Look("#84bd58", "v", (0, (6, 1.5, 1, 1.5, 1, 1.5))),
    Look("#e3bd45", "P", (0, (3, 1))),
)
"""From dark to light; neighbours differ in colour, marker and line."""
DENSE = Look(INK, "D", (0, (5, 2)))
RANDOM = Look(FAINT, "X", (0, (1, 1.2)))


def look(number: int) -> Look:
    """Return the look of a series by its number; colours repeat with other markers."""
    own = LOOKS[number % len(LOOKS)]
    round_ = number // len(LOOKS)
    return own if round_ == 0 else own._replace(marker=("*", "<", ">", "h")[(round_ - 1) % 4])


@contextmanager
def house_style() -> Iterator[None]:
    """Apply our settings of matplotlib during the block."""
    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        # Letters that the font lacks are boxes in the PNG and correct in the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, size in inches, outside the global state of pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(count: int, columns: int, width: float = 3.6, height: float = 3.1) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes of equal size, row by row."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(width * columns + 0.8, height * rows + 0.5)
    return figure, [figure.add_subplot(rows, columns, index + 1) for index in range(count)]


def whole_numbers(axes: Axes) -> None:
    """Put ticks of the x axis at whole numbers only: there is no epoch 1.5."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def legend_below(figure: Figure, axes: Sequence[Axes], columns: int = 3) -> None:
    """Add one legend for all axes below them, so that it hides nothing."""
    found: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        found |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in found}
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(columns, len(found)))


def shortened(text: str, limit: int = 34) -> str:
    """Cut a name that is too long."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def rendered(draw: Callable[[], Figure]) -> tuple[bytes, bytes]:
    """Return a figure as SVG and PNG, without a date, so that the bytes are reproducible."""
    with house_style():
        figure = draw()
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # already laid out for the SVG
        figure.savefig(png, format="png", metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


@dataclass(frozen=True)
class Picture:
    """One picture as SVG and PNG."""

    name: str
    """Stem of its files, e.g. `front`."""
    title: str
    caption: str
    """What is shown and how to read it."""
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Gallery:
    """All pictures of a search."""

    pictures: tuple[Picture, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why pictures were left out for lack of data, by name."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Errors of pictures that could not be drawn, by name."""


FOLDER = "pictures"
LEFT_OUT = "left_out.txt"
INDEX = "index.json"
"""Names, titles and captions, in order."""


def save_pictures(
    pictures: Iterable[Picture], folder: Path, left_out: Mapping[str, str] | None = None
) -> dict[str, Path]:
    """Write `pictures/<name>.svg` and `.png` into a results folder and remove older ones.

    `left_out.txt` says which pictures are missing and why.

    Returns:
        Path in an MLflow run -> file.
    """
    target = folder / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for old in (*target.glob("*.svg"), *target.glob("*.png"), target / LEFT_OUT, target / INDEX):
        old.unlink(missing_ok=True)
    files: dict[str, bytes] = {}
    index = []
    for picture in pictures:
        files |= {f"{picture.name}.svg": picture.svg, f"{picture.name}.png": picture.png}
        index.append({"name": picture.name, "title": picture.title, "caption": picture.caption})
    if left_out:
        files[LEFT_OUT] = "".join(f"{name}: {reason}\n" for name, reason in left_out.items()).encode()
    files[INDEX] = json.dumps(index, indent=1).encode()  # last, when all files exist
    for name, content in files.items():
        (target / name).write_bytes(content)
    return {f"{FOLDER}/{name}": target / name for name in files}


def saved_pictures(folder: Path) -> tuple[Picture, ...]:
    """Return the pictures in a results folder; none if they are incomplete."""
    target = folder / FOLDER
    try:
        index = json.loads((target / INDEX).read_text(encoding="utf-8"))
        return tuple(
            Picture(**entry, svg=_read(target, entry, "svg"), png=_read(target, entry, "png")) for entry in index
        )
    except (OSError, ValueError, TypeError, KeyError):
        return ()


def _read(folder: Path, entry: Mapping[str, str], form: str) -> bytes:
    return (folder / f"{entry['name']}.{form}").read_bytes()
