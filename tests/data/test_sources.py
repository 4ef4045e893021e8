import pytest

from tune_tickets.config.task import Rows, Task
from tune_tickets.data.files import read_held_out, read_source
from tune_tickets.data.task import load_task
from tune_tickets.errors import DataError


def test_each_kind_of_source_is_told_by_its_name(write_csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv([("a", "x")], name="here.csv")
    assert read_source(Task(source="here.csv")).name == "here.csv"
    assert read_source(Task(source="bundled/imdb")).name == "bundled/imdb"
    assert read_held_out(Task(source="here.csv")) is None
    held = read_held_out(Task(source="bundled/imdb", held_out="here.csv"))
    assert held is not None
    assert held.name == "here.csv"


def test_one_bundled_corpus_can_be_held_out_against_the_other():
    task = Task(held_out="bundled/imdb", rows=Rows(train=100, select=10, report=10))
    data = load_task(task, seed=0)
    assert all(len(row.texts[0].split()) < 60 for row in data.train)  # Rotten Tomatoes: single sentences
    assert sum(len(row.texts[0].split()) for row in data.select) > 10 * 80  # IMDB: whole reviews


@pytest.mark.parametrize("source", ["missing.csv", "./missing", "a/b/missing.parquet", "~/missing.jsonl.gz"])
def test_a_missing_file_is_told_without_asking_the_hub(monkeypatch, tmp_path, source):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        load_task(Task(source=source), seed=0)


def test_a_split_cannot_be_held_out_of_a_file(write_csv, reviews):
    with pytest.raises(DataError, match=r"task\.held_out is 'validation', which is not a file"):
        load_task(Task(source=write_csv(reviews), held_out="validation"), seed=0)
