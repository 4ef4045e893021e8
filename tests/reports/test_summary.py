import json
import math

import pytest

from tests.reports.conftest import make_summary, make_trial
from tune_tickets.errors import TicketsError
from tune_tickets.results.summary import read_summary, summary_schema, write_summary


def test_a_summary_comes_back_as_it_was_written(tmp_path):
    summary = make_summary([make_trial(0), make_trial(1, status="failed", outcome=None, values=None, error="ü")])
    path = write_summary(summary, tmp_path / "new" / "results")
    assert path.name == "summary.json"
    assert read_summary(path.parent) == summary


def test_writing_leaves_no_other_file_behind(tmp_path):
    for number in range(3):
        write_summary(make_summary([make_trial(number)], f"t{number}"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    assert read_summary(tmp_path).selected.trial == "t2"


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    write_summary(make_summary([make_trial(0)]), tmp_path)
    before = (tmp_path / "summary.json").read_bytes()

    def full_disk(descriptor):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_summary(make_summary([make_trial(1)], "t1"), tmp_path)
    assert (tmp_path / "summary.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_metrics_that_diverged_are_left_out(tmp_path):
    trial = make_trial(0, metrics={"loss": math.nan, "probe": math.inf, "clean": 84.0})
    write_summary(make_summary([trial]), tmp_path)
    assert read_summary(tmp_path).trials[0].metrics == {"clean": 84.0}


def test_the_file_fits_the_published_schema(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    path = write_summary(make_summary([make_trial(0)]), tmp_path)
    data = json.loads(path.read_text())
    jsonschema.validate(data, summary_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data | {"unknown": 1}, summary_schema())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"There is no summary\.json .* search that has ended"),
        ("{", "cannot be read"),
        ('{"schema_version": 99}', "schema version 99, this release reads 1"),
        ("[]", "schema version None"),
        ('{"schema_version": 1}', "does not fit the schema"),
    ],
)
def test_a_summary_that_cannot_be_used_is_an_error_that_says_why(tmp_path, content, message):
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    with pytest.raises(TicketsError, match=message):
        read_summary(tmp_path)


def test_a_file_in_place_of_the_folder_is_no_results_folder(tmp_path):
    (tmp_path / "reviews.csv").touch()
    with pytest.raises(TicketsError, match=r"no summary\.json in .*reviews\.csv: give the results folder"):
        read_summary(tmp_path / "reviews.csv")
