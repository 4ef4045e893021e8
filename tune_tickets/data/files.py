"""Local files: csv, tsv, jsonl, json and parquet, each also as .gz.

Text formats are read with the standard library: unlike pandas it keeps line numbers for error messages, turns neither
the text 'NA' into a missing value nor whole-number labels into floats, and refuses rows that are too short.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tune_tickets.data.table import Table
from tune_tickets.errors import DataError


def read_file(path: Path) -> Table:
    """The rows of a local file, chosen by its extension."""
    reader = READERS.get(extension(path))
    if not path.exists():
        looked = "" if path.is_absolute() else f" in {Path.cwd()}, the folder the command is run in"
        raise DataError(f"{path}: no such file{looked}. Correct the path.")
    if reader is None:
        raise DataError(
            f"{path}: cannot tell the format from the file name. Known extensions are {', '.join(READERS)}, "
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


READERS: dict[str, Callable[[str, bytes], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}
