import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from tune_tickets.data.files import read_file
from tune_tickets.errors import DataError

ROWS = [("NA", "0"), ('he said "no", twice', "1"), ("two\nlines", "1"), ("  é ü 😀 ", "0")]


def write(path: Path) -> Path:
    frame = pd.DataFrame(ROWS, columns=["text", "label"])
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    plain = path.with_name(f"plain.{kind}")
    if kind in ("csv", "tsv"):
        frame.to_csv(plain, index=False, sep="," if kind == "csv" else "\t")
    elif kind == "parquet":
        frame.to_parquet(plain)
    else:
        frame.to_json(plain, orient="records", lines=kind == "jsonl", force_ascii=False)
    content = plain.read_bytes()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_what_pandas_writes_is_read_back_to_the_letter(tmp_path, kind, ending):
    table = read_file(write(tmp_path / f"rows.{kind}{ending}"))
    assert list(table.columns) == ["text", "label"]
    assert list(zip(table.columns["text"], table.columns["label"], strict=True)) == ROWS


def test_extensions_may_be_written_in_capitals_and_a_byte_order_mark_is_no_part_of_the_header(tmp_path):
    path = tmp_path / "ROWS.CSV"
    path.write_bytes("text,label\na,1\n".encode("utf-8-sig"))
    assert list(read_file(path).columns) == ["text", "label"]


def test_rows_know_the_line_they_start_on(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"one\ntwo",1\n\nthree,0\n')
    assert [read_file(path).where(row) for row in (0, 1)] == [f"{path}, line 2", f"{path}, line 5"]
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": "b"}\n')
    assert read_file(path).where(1) == f"{path}, line 3"
    path = tmp_path / "rows.json"
    path.write_text('[{"text": "a"}, {"text": "b"}]')
    assert read_file(path).where(1) == f"{path}, row 2"


def test_tsv_without_quoting_keeps_stray_quotes(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text('sentence\tlabel\n"good" they said\t1\n"not so\t0\n')
    assert list(read_file(path).columns["sentence"]) == ['"good" they said', '"not so']


def test_json_values_keep_their_types_and_absent_keys_are_none(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1}\n{"text": "b"}\n{"text": "c", "label": 0, "id": 7}\n')
    table = read_file(path)
    assert table.columns["label"] == [1, None, 0]
    assert table.columns["id"] == [None, None, 7]


def test_a_text_longer_than_the_csv_limit_is_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,label\n{'word ' * 40_000},1\n")
    assert len(str(read_file(path).columns["text"][0])) == 200_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"text,label\na,1\nb,c,0\n", r"rows\.csv, line 3: 3 values where the header has 2 columns"),
        ("rows.csv", b"text,label\na,1\nb\n", r"rows\.csv, line 3: 1 values where"),
        ("rows.csv", b'text,label\na,1\n"b" c,0\n', r"rows\.csv, line 3: .*Quote texts"),
        ("rows.csv", b'text,label\n"never closed,1\nb,0\n', r"rows\.csv, line 2: .*Quote texts"),
        ("rows.csv", b"text,text\na,1\n", r"line 1: the header names 'text' twice"),
        ("rows.csv", b"", r"holds no rows"),
        ("rows.csv", b"text,label\n", r"holds no rows"),
        ("rows.csv", b"text,label\ncaf\xe9,1\n", r"not UTF-8 text \(byte 14\)"),
        ("rows.tsv", b"text\tlabel\na\t1\nb\n", r"rows\.tsv, line 3: 1 values where the header has 2"),
        ("rows.jsonl", b'{"text": "a"}\n{"text": \n', r"rows\.jsonl, line 2: not valid JSON"),
        ("rows.jsonl", b'{"text": "a"}\n["b"]\n', r"rows\.jsonl, line 2: expected an object"),
        ("rows.json", b'{"text": "a"}\n{"text": "b"}\n', r"use the extension \.jsonl"),
        ("rows.json", b'{"text": ["a"]}', r"holds a dict, expected a list of objects"),
        ("rows.json", b"[]", r"holds no rows"),
        ("rows.parquet", b"PAR1 not really", r"rows\.parquet: not a valid parquet file"),
        ("rows.csv.gz", b"text,label\n", r"rows\.csv\.gz: cannot be read"),
        ("rows.csv.gz", gzip.compress(b"text,label\na,1\n", mtime=0)[:-9], r"rows\.csv\.gz: cannot be read"),
        ("rows.xlsx", b"PK", r"Known extensions are \.csv, \.tsv, \.jsonl, \.json, \.parquet, each also with \.gz"),
        ("rows", b"text", r"cannot tell the format"),
        ("rows.gz", gzip.compress(b"text", mtime=0), r"cannot tell the format"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place_and_the_remedy(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        read_file(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named_with_the_folder_it_was_sought_in(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as error:
        read_file(Path("nowhere.csv"))
    assert str(error.value) == (f"nowhere.csv: no such file in {tmp_path}, the current folder. Correct the path.")


def test_a_folder_of_a_known_extension_cannot_be_read_as_a_file(tmp_path):
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_file(tmp_path / "rows.csv")


def test_a_json_text_of_deep_nesting_is_an_error_of_the_data(tmp_path):
    (tmp_path / "rows.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="not valid JSON"):
        read_file(tmp_path / "rows.json")


def test_json_escapes_are_decoded(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "é\u2028x"}) + "\n")
    assert read_file(tmp_path / "rows.jsonl").columns["text"] == ["é\u2028x"]
