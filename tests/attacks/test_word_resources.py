"""Word resources as values, compared with what NLTK and numpy read."""

import gzip
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tune_tickets.attacks.word_resources import counter_fitted, neighbour_lists, nltk_stop_words, pos_tags
from tune_tickets.errors import ResourceError

SHARED = Path(os.environ.get("TUNE_TICKETS_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
NLTK_DATA = next(
    (
        path
        for path in (Path(os.environ.get("NLTK_DATA", "/nowhere")), Path.home() / "nltk_data", SHARED / "nltk_data")
        if (path / "taggers" / "averaged_perceptron_tagger_eng.zip").is_file()
    ),
    None,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "cache"))


def test_neighbours_are_read_in_lower_case_and_in_order(tmp_path, monkeypatch):
    lists = {"Movie": ["film", "cinema"], "dull": []}
    (tmp_path / "n.json.gz").write_bytes(gzip.compress(json.dumps(lists).encode()))
    monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(tmp_path / "n.json.gz"))
    assert neighbour_lists() == {"movie": ("film", "cinema"), "dull": ()}


@pytest.mark.parametrize("content", ["[1, 2]", '{"a": 1}', "{"])
def test_a_file_that_is_no_list_of_neighbours_is_named(tmp_path, monkeypatch, content):
    (tmp_path / "n.json").write_text(content)
    monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(tmp_path / "n.json"))
    with pytest.raises(ResourceError, match=r"n\.json cannot be used"):
        neighbour_lists()


WORDS = ("bad", "good", "fine")
VECTORS = np.array([[1.0, -0.5], [0.25, 2.0], [0.0, 3.0]], dtype=np.float32)


def as_text(path):
    path.write_text("".join(f"{word} {row[0]} {row[1]}\n" for word, row in zip(WORDS, VECTORS, strict=True)))
    return path


def as_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(as_text(path.with_suffix(".txt")), "counter-fitted-vectors.txt")
    return path


def as_folder(path, listed):
    path.mkdir()
    np.save(path / "paragram.npy", VECTORS.astype(np.float64))
    if isinstance(listed, str):
        (path / "wordlist.txt").write_text(listed)
    else:
        (path / "wordlist.json").write_text(json.dumps(listed))
    return path


@pytest.mark.parametrize(
    "make",
    [
        as_text,
        as_zip,
        lambda path: as_folder(path, "bad\ngood\nfine\n"),
        lambda path: as_folder(path, list(WORDS)),
        lambda path: as_folder(path, {"good": 1, "fine": 2, "bad": 0}),
    ],
)
def test_every_form_of_the_vectors_gives_the_same_words_and_numbers(tmp_path, monkeypatch, make):
    monkeypatch.setenv("TUNE_TICKETS_COUNTER_FITTED", str(make(tmp_path / "vectors")))
    words, vectors = counter_fitted()
    assert words == WORDS
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, VECTORS)


def test_pickled_vectors_are_refused(tmp_path, monkeypatch):
    folder = as_folder(tmp_path / "v", list(WORDS))
    np.save(folder / "paragram.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    monkeypatch.setenv("TUNE_TICKETS_COUNTER_FITTED", str(folder))
    with pytest.raises(ResourceError, match="cannot be used"):
        counter_fitted()


def test_vectors_that_do_not_fit_their_words_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_TICKETS_COUNTER_FITTED", str(as_folder(tmp_path / "v", ["bad"])))
    with pytest.raises(ResourceError, match=r"1 words for vectors of shape \(3, 2\)"):
        counter_fitted()


def test_stop_words_may_be_a_plain_list(tmp_path, monkeypatch):
    (tmp_path / "stop.txt").write_text("the\nnot\n")
    monkeypatch.setenv("TUNE_TICKETS_STOP_WORDS", str(tmp_path / "stop.txt"))
    assert nltk_stop_words() == {"the", "not"}


@pytest.mark.skipif(NLTK_DATA is None, reason="NLTK's tagger is not on this machine (NLTK_DATA, ~/nltk_data)")
def test_tags_and_stop_words_are_those_that_nltk_gives(monkeypatch):
    import nltk

    monkeypatch.setenv("NLTK_DATA", str(NLTK_DATA))
    monkeypatch.setattr(nltk.data, "path", [str(NLTK_DATA)])
    sentences = [
        "The movie was surprisingly good , and we loved it !",
        "an overblown clunker full of bad jokes and howling cliches",
        "He films 2 running dogs unlike anybody else's , \U0001f600 \u7535\u5f71",
    ]
    for sentence in sentences:
        words = sentence.split()
        assert pos_tags(words) == [tag for _, tag in nltk.pos_tag(words, tagset="universal")]
    assert nltk_stop_words() == set(nltk.corpus.stopwords.words("english"))
    assert pos_tags([]) == []
