"""Plain texts from bundled reviews and from files, and their seeded sample."""

import gzip

import pytest

from tune_tickets.data.corpus import read_corpus, sample_texts, texts_in_order
from tune_tickets.data.files import read_bundled
from tune_tickets.errors import DataError, Unreachable


def test_bundled_reviews_are_both_corpora_without_their_labels():
    short = [str(text) for text in read_bundled("bundled/rotten-tomatoes").column("text")]
    assert read_corpus("bundled/rotten-tomatoes") == short
    both = read_corpus("bundled/reviews")
    assert both[: len(short)] == short
    assert len(both) == len(short) + len(read_corpus("bundled/imdb"))


def test_files_hold_a_text_per_line_and_a_folder_all_its_files(tmp_path):
    (tmp_path / "b.txt").write_text("third\n", encoding="utf-8")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("first é\nsecond\n".encode()))
    (tmp_path / "notes.md").write_text("no text of ours")
    assert read_corpus(str(tmp_path / "a.txt.gz")) == ["first é", "second"]
    assert read_corpus(str(tmp_path)) == ["first é", "second", "third"]


def test_a_sample_has_no_text_twice_and_depends_on_the_seed_not_on_the_order():
    texts = [f"text {number}" for number in range(50)] * 2 + ["", "  ", " text 0 "]
    sample = sample_texts(texts, 20, seed=0)
    assert len(set(sample)) == 20
    assert sample == sample_texts(reversed(texts), 20, seed=0)
    assert sample != sample_texts(texts, 20, seed=1)
    assert sample == sample_texts(texts, 60, seed=0)[:20]
    assert len(sample_texts(texts, 60, seed=0)) == 50


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "nor a bundled corpus nor a local file"), (b"\xff\xfe\xff", "not UTF-8"), ("folder", "no .txt")],
)
def test_what_cannot_be_read_is_said(tmp_path, content, problem):
    path = tmp_path / "corpus.txt"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_corpus(str(path))


def test_a_file_that_is_no_gzip_is_named(tmp_path):
    (tmp_path / "c.txt.gz").write_bytes(b"plain")
    with pytest.raises(DataError, match=r"c\.txt\.gz: cannot be read"):
        read_corpus(str(tmp_path / "c.txt.gz"))


def test_texts_in_order_keep_their_neighbours_and_a_sample_of_them_their_order():
    texts = ["b", " ", "a", "", " b ", "c"]
    assert texts_in_order(texts, None, seed=0) == ("b", "a", "b", "c")
    assert texts_in_order(texts, 9, seed=0) == ("b", "a", "b", "c")
    many = [f"{number:03}" for number in range(200)]
    sample = texts_in_order(many, 50, seed=0)
    assert len(set(sample)) == 50
    assert list(sample) == sorted(sample)
    assert sample == texts_in_order(many, 50, seed=0)
    assert sample != texts_in_order(many, 50, seed=1)


def test_a_hub_id_with_a_subset_is_asked_of_the_hub():
    with pytest.raises(Unreachable, match="'Salesforce/wikitext' is neither a local file nor a data set"):
        read_corpus("Salesforce/wikitext:wikitext-2-raw-v1")


def test_of_a_hub_data_set_the_training_texts_are_taken(monkeypatch):
    import datasets

    asked = []

    def load(source, subset, split):
        asked.append((source, subset, split))
        return datasets.Dataset.from_dict({"text": [" = Title = ", "", "a paragraph"]})

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert read_corpus("Salesforce/wikitext:wikitext-2-raw-v1") == [" = Title = ", "", "a paragraph"]
    assert asked == [("Salesforce/wikitext", "wikitext-2-raw-v1", "train")]
