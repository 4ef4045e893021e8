"""Pictures as files, and files as pictures again."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tune_tickets.reporting.pictures.picture import Picture

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
