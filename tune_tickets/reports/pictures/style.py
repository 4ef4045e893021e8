"""Pictures as files, and files as pictures again."""

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
"""Colours of a quantity: from dark to light without a turn, so that grey tells the same."""
DPI = 150
_RC: Any = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same letters on every machine
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
    "text.parse_math": False,  # a dollar sign in a name or an attacked text is a dollar sign
    "svg.fonttype": "none",  # text stays text: it can be searched, selected and read aloud
    "svg.hashsalt": "tune_tickets",  # the same picture has the same bytes
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
"""In this order, from dark to light; neighbours differ in all three."""
DENSE = Look(INK, "D", (0, (5, 2)))
RANDOM = Look(FAINT, "X", (0, (1, 1.2)))


def look(number: int) -> Look:
    """The look of the series with that number; after the last colour they begin again with other markers."""
    own = LOOKS[number % len(LOOKS)]
    round_ = number // len(LOOKS)
    return own if round_ == 0 else own._replace(marker=("*", "<", ">", "h")[(round_ - 1) % 4])


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of matplotlib inside the block; outside they are as before."""
    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        # Letters that no font here has are drawn as boxes, in the SVG they are whole.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, known to no global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(count: int, columns: int, width: float = 3.6, height: float = 3.1) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes of equal size, row by row."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(width * columns + 0.8, height * rows + 0.5)
    return figure, [figure.add_subplot(rows, columns, index + 1) for index in range(count)]


def whole_numbers(axes: Axes) -> None:
    """Ticks of the x axis at whole numbers only: there is no epoch 1.5."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def legend_below(figure: Figure, axes: Sequence[Axes], columns: int = 3) -> None:
    """One legend for all axes, outside of them, so that it hides nothing."""
    found: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        found |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in found}
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(columns, len(found)))


def shortened(text: str, limit: int = 34) -> str:
    """A name that fits beside a picture."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def rendered(draw: Callable[[], Figure]) -> tuple[bytes, bytes]:
    """The figure as SVG and PNG, without a date: drawn again it has the same bytes."""
    with house_style():
        figure = draw()
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # it was laid out for the SVG
        figure.savefig(png, format="png", metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


@dataclass(frozen=True)
class Picture:
    """One figure as vector and as pixels."""

    name: str
    """Stem of its files, e.g. `front`."""
    title: str
    caption: str
    """What is shown and how to read it, in a sentence or two."""
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Gallery:
    """All pictures of a search."""

    pictures: tuple[Picture, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Pictures for which there were no data, by name: why."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Pictures that could not be drawn though there were data: what went wrong."""


FOLDER = "pictures"
LEFT_OUT = "left_out.txt"
INDEX = "index.json"
"""Names, titles and captions, in order."""


def save_pictures(
    pictures: Iterable[Picture], folder: Path, left_out: Mapping[str, str] | None = None
) -> dict[str, Path]:
    """Write `pictures/<name>.svg` and `.png` into a results folder in the place of older ones.

    Gives path in an MLflow run -> file. `left_out.txt` says what is not there and why.
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
    files[INDEX] = json.dumps(index, indent=1).encode()  # last: it speaks of files that are there
    for name, content in files.items():
        (target / name).write_bytes(content)
    return {f"{FOLDER}/{name}": target / name for name in files}


def saved_pictures(folder: Path) -> tuple[Picture, ...]:
    """The pictures in a results folder; none if they were not drawn to the end."""
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
